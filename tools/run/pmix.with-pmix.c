/* A word by PMIx: process 0 puts it, all meet, the others get it; see pmix.h. */
#include "tools/run/pmix.h"

#include <errno.h>
#include <pmix.h>
#include <pmix_version.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/status.h"

#define WORDS(number) #number
#define TEXT(number)  WORDS(number)

enum { NS_PER_S = 1000000000 };

static const char key[] = "tutti.root";

/* Of a meeting of all: who waits may have given up when it comes, and whoever is last frees it. */
struct meeting {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool over;
    bool left; /* nobody waits any more */
    pmix_status_t status;
};

const char *tutti_pmix_version(void)
{
    return TEXT(PMIX_VERSION_MAJOR) "." TEXT(PMIX_VERSION_MINOR) "." TEXT(PMIX_VERSION_RELEASE);
}

bool tutti_pmix_is_there(const struct tutti_env *env)
{
    return env->get(env->context, "PMIX_NAMESPACE") != NULL &&
           env->get(env->context, "PMIX_RANK") != NULL;
}

static int failed(pmix_status_t code, const char *what, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EIO,
                      "the launcher does not %s by PMIx: %s (TUTTI_ROOT=HOST:PORT, or "
                      "'--rendezvous', says where process 0 is)",
                      what, PMIx_Error_string(code));
}

static void free_meeting(struct meeting *meeting)
{
    pthread_cond_destroy(&meeting->changed);
    pthread_mutex_destroy(&meeting->lock);
    free(meeting);
}

static struct meeting *new_meeting(void)
{
    struct meeting *meeting = calloc(1, sizeof(*meeting));
    pthread_condattr_t attr;

    if (meeting == NULL)
        return NULL;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&meeting->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_mutex_init(&meeting->lock, NULL);
    return meeting;
}

/* In a thread of PMIx. */
static void met(pmix_status_t status, void *data)
{
    struct meeting *meeting = data;
    bool left;

    pthread_mutex_lock(&meeting->lock);
    meeting->over = true;
    meeting->status = status;
    left = meeting->left;
    pthread_cond_signal(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
    if (left)
        free_meeting(meeting);
}

static struct timespec after(tutti_ps ps)
{
    struct timespec then;
    int64_t ns;

    (void)clock_gettime(CLOCK_MONOTONIC, &then);
    ns = then.tv_nsec + ps % TUTTI_PS_PER_S / TUTTI_PS_PER_NS;
    then.tv_sec += (time_t)(ps / TUTTI_PS_PER_S + ns / NS_PER_S);
    then.tv_nsec = (long)(ns % NS_PER_S);
    return then;
}

/* All processes come here, and what they have put is then known to all their hosts. */
static int meet(tutti_ps deadline_ps, struct tutti_err *err)
{
    const struct timespec due = after(deadline_ps);
    struct meeting *meeting = new_meeting();
    char time[TUTTI_UNIT_TEXT_BYTES];
    pmix_status_t code;
    pmix_info_t *collect;
    bool collects = true;
    bool over;

    PMIX_INFO_CREATE(collect, 1);
    if (meeting == NULL || collect == NULL) {
        if (meeting != NULL)
            free_meeting(meeting);
        return tutti_nomem(err);
    }
    PMIX_INFO_LOAD(collect, PMIX_COLLECT_DATA, &collects, PMIX_BOOL);
    code = PMIx_Fence_nb(NULL, 0, collect, 1, met, meeting);
    if (code != PMIX_SUCCESS) {
        free_meeting(meeting);
        PMIX_INFO_FREE(collect, 1);
        return code == PMIX_OPERATION_SUCCEEDED ? 0 : failed(code, "let processes meet", err);
    }
    pthread_mutex_lock(&meeting->lock);
    while (!meeting->over &&
           pthread_cond_timedwait(&meeting->changed, &meeting->lock, &due) != ETIMEDOUT) {
    }
    over = meeting->over;
    code = meeting->status;
    meeting->left = true;
    pthread_mutex_unlock(&meeting->lock);
    if (!over) /* PMIx may still look at `collect` */
        return tutti_fail(err, TUTTI_ETIME,
                          "deadline of %s passed: not all processes of the job have come to ask "
                          "PMIx where process 0 is",
                          tutti_print_time(deadline_ps, time));
    free_meeting(meeting);
    PMIX_INFO_FREE(collect, 1);
    return code == PMIX_SUCCESS ? 0 : failed(code, "let processes meet", err);
}

static int put(char *word, struct tutti_err *err)
{
    pmix_value_t value = {.type = PMIX_STRING, .data = {.string = word}};
    pmix_status_t code = PMIx_Put(PMIX_GLOBAL, key, &value);

    if (code == PMIX_SUCCESS)
        code = PMIx_Commit();
    return code == PMIX_SUCCESS ? 0 : failed(code, "take a word", err);
}

static int get(const pmix_proc_t *me, char word[TUTTI_LAUNCH_SHARE_BYTES], struct tutti_err *err)
{
    pmix_proc_t root = *me;
    pmix_value_t *value = NULL;
    pmix_status_t code;
    int status = 0;

    root.rank = 0;
    code = PMIx_Get(&root, key, NULL, 0, &value);
    if (code != PMIX_SUCCESS)
        return failed(code, "give the word of process 0", err);
    if (value->type != PMIX_STRING || strlen(value->data.string) >= TUTTI_LAUNCH_SHARE_BYTES)
        status = tutti_fail(err, TUTTI_EIO, "process 0 has put no word into PMIx's '%s'", key);
    else
        (void)snprintf(word, TUTTI_LAUNCH_SHARE_BYTES, "%s", value->data.string);
    PMIX_VALUE_RELEASE(value);
    return status;
}

int tutti_pmix_share(const struct tutti_launch *launch, char word[TUTTI_LAUNCH_SHARE_BYTES],
                     tutti_ps deadline_ps, struct tutti_err *err)
{
    pmix_proc_t me;
    pmix_status_t code = PMIx_Init(&me, NULL, 0);
    int status = 0;

    if (code != PMIX_SUCCESS)
        return failed(code, "answer", err);
    if (me.rank != launch->index)
        status = tutti_fail(err, TUTTI_EINVAL, "%s says that this is process %u, and PMIx %u",
                            launch->by, launch->index, me.rank);
    if (status == 0 && launch->index == 0)
        status = put(word, err);
    if (status == 0)
        status = meet(deadline_ps, err);
    if (status == 0 && launch->index > 0)
        status = get(&me, word, err);
    if (status != -TUTTI_ETIME) /* else it would wait as well */
        (void)PMIx_Finalize(NULL, 0);
    return status;
}
