/* Looks hosts up by libc's resolver, which knows no deadline: in a thread that is left to itself
 * when it takes too long, and cleans up after itself whenever that may be. */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/group/address.h"
#include "runtime/status.h"

enum { NS_PER_S = 1000000000 };

/* Belongs to both, who asks and the thread; whoever is last to let go frees it. */
struct question {
    pthread_mutex_t lock; /* guards the rest but the host */
    pthread_cond_t changed;
    bool answered;
    bool left; /* nobody waits any more */
    int code;  /* of getaddrinfo */
    int error; /* errno, for EAI_SYSTEM */
    struct addrinfo *list;
    char host[TUTTI_HOST_BYTES];
};

static int ask(const char *host, int flags, struct addrinfo **ret)
{
    const struct addrinfo hints = {
        .ai_flags = flags, .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};

    return getaddrinfo(host, NULL, &hints, ret);
}

static void free_question(struct question *question)
{
    if (question->list != NULL)
        freeaddrinfo(question->list);
    pthread_cond_destroy(&question->changed);
    pthread_mutex_destroy(&question->lock);
    free(question);
}

static void *answer(void *data)
{
    struct question *question = data;
    struct addrinfo *list = NULL;
    int code = ask(question->host, 0, &list);
    int error = errno;
    bool left;

    pthread_mutex_lock(&question->lock);
    question->answered = true;
    question->code = code;
    question->error = error;
    question->list = code == 0 ? list : NULL;
    left = question->left;
    pthread_cond_signal(&question->changed);
    pthread_mutex_unlock(&question->lock);
    if (left)
        free_question(question);
    return NULL;
}

/* The thread runs on its own; signals are for the threads of the program. */
static int start(struct question *question, struct tutti_err *err)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all;
    sigset_t old;
    int code;

    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&thread, &attr, answer, question);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
    return code == 0 ? 0
                     : tutti_fail(err, TUTTI_EIO, "cannot start a thread to look '%s' up: %s",
                                  question->host, strerror(code));
}

static struct question *new_question(const char *host)
{
    struct question *question = calloc(1, sizeof(*question));
    pthread_condattr_t attr;

    if (question == NULL)
        return NULL;
    memcpy(question->host, host, strnlen(host, sizeof(question->host) - 1));
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&question->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_mutex_init(&question->lock, NULL);
    return question;
}

static struct timespec after(tutti_ps wait_ps)
{
    struct timespec then;
    int64_t ns;

    (void)clock_gettime(CLOCK_MONOTONIC, &then);
    ns = then.tv_nsec + wait_ps % TUTTI_PS_PER_S / TUTTI_PS_PER_NS;
    then.tv_sec += (time_t)(wait_ps / TUTTI_PS_PER_S + ns / NS_PER_S);
    then.tv_nsec = (long)(ns % NS_PER_S);
    return then;
}

/* What getaddrinfo says of the host, in `wait_ps` at the latest. */
static int ask_in_time(const char *host, tutti_ps wait_ps, int *ret_code, struct addrinfo **ret,
                       struct tutti_err *err)
{
    const struct timespec due = after(wait_ps > 0 ? wait_ps : 0);
    struct question *question = new_question(host);
    char time[TUTTI_UNIT_TEXT_BYTES];
    bool answered;
    int status = question == NULL ? tutti_nomem(err) : start(question, err);

    if (status < 0) {
        if (question != NULL)
            free_question(question);
        return status;
    }
    pthread_mutex_lock(&question->lock);
    while (!question->answered &&
           pthread_cond_timedwait(&question->changed, &question->lock, &due) == 0) {
    }
    answered = question->answered;
    question->left = true;
    pthread_mutex_unlock(&question->lock);
    if (!answered) /* the thread frees it */
        return tutti_fail(err, TUTTI_EIO, "host '%s' has not been looked up within %s", host,
                          tutti_print_time(wait_ps > 0 ? wait_ps : 0, time));
    *ret_code = question->code;
    errno = question->error;
    *ret = question->list;
    question->list = NULL;
    free_question(question);
    return 0;
}

int tutti_address_resolve(const char *host, uint16_t port, uint32_t skip, tutti_ps wait_ps,
                          struct tutti_address *ret, struct tutti_err *err)
{
    struct addrinfo *list = NULL;
    const struct addrinfo *one;
    int code = ask(host, AI_NUMERICHOST, &list); /* asks nobody */
    int status = 0;

    if (code != 0)
        status = ask_in_time(host, wait_ps, &code, &list, err);
    if (status < 0)
        return status;
    if (code != 0)
        return tutti_fail(err, TUTTI_EIO, "host '%s' is not known: %s", host,
                          code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    for (one = list; one != NULL; one = one->ai_next)
        if ((one->ai_family == AF_INET || one->ai_family == AF_INET6) && skip-- == 0)
            break;
    if (one != NULL) {
        memset(ret, 0, sizeof(*ret));
        memcpy(&ret->as, one->ai_addr, one->ai_addrlen);
        ret->bytes = one->ai_addrlen;
        tutti_address_set_port(ret, port);
    }
    freeaddrinfo(list);
    if (one == NULL)
        return tutti_fail(err, TUTTI_EIO, "host '%s' has no (further) address", host);
    return 0;
}
