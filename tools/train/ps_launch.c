/* Starts the processes of a training by servers on this host; see ps.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/meet.h"
#include "runtime/status.h"
#include "tools/run/children.h"
#include "tools/run/join.h"
#include "tools/train/ps.h"

/* How long processes that a failure has not ended are given to report what they know of it. */
static const tutti_ps GRACE_PS = 3 * TUTTI_PS_PER_S;

enum { CONFIG_BYTES = 1 << 15 };

/* ---- the words ------------------------------------------------------------------------------- */

static int refuse(const char *text, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--launch': '%.60s' with parameter servers (ps=N,worker=M, each 1 or "
                      "more, with chief=1 and evaluator=1 if wanted; %d processes at most)",
                      text, TUTTI_JOIN_LAUNCH_MAX);
}

int tutti_train_tasks_read(const char *text, struct tutti_train_tasks *ret, struct tutti_err *err)
{
    struct tutti_train_tasks tasks = {.servers = 0};
    const struct {
        const char *word;
        uint32_t *count;
        uint32_t most;
    } words[] = {{"ps=", &tasks.servers, TUTTI_JOIN_LAUNCH_MAX},
                 {"worker=", &tasks.workers, TUTTI_JOIN_LAUNCH_MAX},
                 {"chief=", &tasks.chiefs, 1},
                 {"evaluator=", &tasks.evaluators, 1}};
    const char *at = text;

    while (*at != '\0') {
        size_t i = 0;
        char *end = NULL;
        unsigned long number;

        while (i < 4 && strncmp(at, words[i].word, strlen(words[i].word)) != 0)
            i++;
        if (i == 4)
            return refuse(text, err);
        at += strlen(words[i].word);
        number = strtoul(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || number > words[i].most ||
            (*end != '\0' && *end != ',') || (*end == ',' && end[1] == '\0'))
            return refuse(text, err);
        *words[i].count = (uint32_t)number;
        at = *end == ',' ? end + 1 : end;
    }
    if (tasks.servers == 0 || tasks.workers == 0 ||
        tasks.servers + tasks.workers + tasks.chiefs + tasks.evaluators > TUTTI_JOIN_LAUNCH_MAX)
        return refuse(text, err);
    *ret = tasks;
    return 0;
}

/* ---- where servers listen -------------------------------------------------------------------- */

/* At any port of this host: nobody else can take it before the server is there, or while it is
 * started again. */
static int listen_here(int *ret_fd, uint16_t *ret_port, struct tutti_err *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, SOMAXCONN) != 0 || getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        int number = errno;

        if (fd >= 0)
            close(fd);
        return tutti_fail(err, TUTTI_EIO, "cannot listen on this host: %s", strerror(number));
    }
    *ret_fd = fd;
    *ret_port = ntohs(address.sin_port);
    return 0;
}

struct start {
    const struct tutti_train_tasks *tasks;
    int *listen_fd; /* [servers] */
    uint16_t *port; /* likewise */
    char config[CONFIG_BYTES];
};

/* Its results come out of process 0: the chief, or worker 0. Then the workers, the servers and the
 * evaluator. */
static void name_process(const struct start *s, uint32_t process, const char **ret_type,
                         uint32_t *ret_index)
{
    const struct tutti_train_tasks *t = s->tasks;
    const uint32_t computing = t->chiefs + t->workers;

    *ret_type = process < t->chiefs                ? "chief"
                : process < computing              ? "worker"
                : process < computing + t->servers ? "ps"
                                                   : "evaluator";
    *ret_index = process < t->chiefs                ? 0
                 : process < computing              ? process - t->chiefs
                 : process < computing + t->servers ? process - computing
                                                    : 0;
}

static void print_list(struct start *s, const char *type, uint32_t count, bool is_first)
{
    size_t used = strlen(s->config);

    if (count == 0)
        return;
    (void)snprintf(s->config + used, CONFIG_BYTES - used, "%s\"%s\":[", is_first ? "" : ",", type);
    for (uint32_t i = 0; i < count; i++) {
        used = strlen(s->config);
        if (strcmp(type, "ps") == 0)
            (void)snprintf(s->config + used, CONFIG_BYTES - used, "%s\"127.0.0.1:%u\"",
                           i > 0 ? "," : "", s->port[i]);
        else /* they listen nowhere: names alone, each another */
            (void)snprintf(s->config + used, CONFIG_BYTES - used, "%s\"%s-%u.localhost:1\"",
                           i > 0 ? "," : "", type, i);
    }
    used = strlen(s->config);
    (void)snprintf(s->config + used, CONFIG_BYTES - used, "]");
}

/* In the process: who it is. */
static int become(struct start *s, uint32_t process, int *ret_listen_fd, struct tutti_err *err)
{
    const char *type;
    uint32_t index;
    size_t used;

    name_process(s, process, &type, &index);
    (void)snprintf(s->config, CONFIG_BYTES, "{\"cluster\":{");
    print_list(s, "ps", s->tasks->servers, true);
    print_list(s, "chief", s->tasks->chiefs, false);
    print_list(s, "worker", s->tasks->workers, false);
    print_list(s, "evaluator", s->tasks->evaluators, false);
    used = strlen(s->config);
    (void)snprintf(s->config + used, CONFIG_BYTES - used,
                   "},\"task\":{\"type\":\"%s\",\"index\":%u}}", type, index);
    *ret_listen_fd = -1;
    for (uint32_t i = 0; i < s->tasks->servers; i++)
        if (strcmp(type, "ps") == 0 && i == index)
            *ret_listen_fd = s->listen_fd[i];
        else
            close(s->listen_fd[i]);
    if (setenv("TF_CONFIG", s->config, 1) != 0)
        return tutti_nomem(err);
    return 0;
}

/* ---- starting -------------------------------------------------------------------------------- */

static int end_with(const struct tutti_args *args, int code, struct tutti_sink *sink,
                    struct tutti_err *err)
{
    if (code != 0)
        err->text[0] = '\0'; /* theirs has been passed on */
    if (code > 2 && code != 77 && tutti_args_given(args, "checkpoint")) {
        sink->exit_code = code;
        return 0;
    }
    return code == 0 ? 0 : code == 2 ? -TUTTI_EINVAL : code == 77 ? -TUTTI_ELACK : -TUTTI_EIO;
}

static void call(const void *context, uint32_t process, char *buf, size_t buf_bytes)
{
    const char *type;
    uint32_t index;

    name_process(context, process, &type, &index);
    (void)snprintf(buf, buf_bytes, "%s %u", type, index);
}

/* Workers other than the chief may be lost: asynchronous training needs one, a synchronous step R
 * of them. */
static int spare_workers(const struct tutti_args *args, const struct start *s,
                         struct tutti_children *children, struct tutti_err *err)
{
    const struct tutti_train_tasks *t = s->tasks;
    struct tutti_servers_params p = {.steps = 0};
    const uint32_t led = t->chiefs > 0 ? 0 : 1; /* worker 0, who is the chief */
    uint32_t least = 1;
    int status = tutti_train_ps_rules(args, &p, err);

    if (p.synchronous)
        least = p.aggregate > 0 && p.aggregate < t->workers ? p.aggregate : t->workers;
    if (status == 0)
        tutti_children_spare_some(children, 1, t->workers - led, least - led);
    return status;
}

static int start_all(const struct tutti_args *args, struct start *s, bool *ret_started,
                     int *ret_listen_fd, struct tutti_sink *sink, struct tutti_err *err)
{
    const struct tutti_train_tasks *t = s->tasks;
    const uint32_t count = t->servers + t->workers + t->chiefs + t->evaluators;
    const uint32_t restarts = (uint32_t)tutti_args_number(args, "restarts");
    struct tutti_children *children = NULL;
    uint32_t index = 0;
    uint32_t again;
    bool child = false;
    int code;
    int status = tutti_children_new("train", count, sink, &children, err);

    if (status == 0) {
        tutti_children_call(children, call, s);
        status = spare_workers(args, s, children, err);
    }
    for (; status == 0 && index < count && !child; index++)
        status = tutti_children_start(children, &child, err);
    if (child)
        return become(s, index - 1, ret_listen_fd, err);
    *ret_started = true;
    if (children == NULL)
        return status;
    if (tutti_args_given(args, "checkpoint"))
        tutti_children_let_save(children, (tutti_ps)tutti_args_number(args, "deadline"));
    tutti_children_restart(children, restarts, (int)tutti_args_number(args, "stop-code"));
    code = tutti_children_keep(children, GRACE_PS, &again);
    if (again != TUTTI_CHILDREN_NONE) {
        *ret_started = false;
        return become(s, again, ret_listen_fd, err);
    }
    return status < 0 ? status : end_with(args, code, sink, err);
}

int tutti_train_tasks_start(const struct tutti_args *args, const struct tutti_train_tasks *tasks,
                            bool *ret_started, int *ret_listen_fd, struct tutti_sink *sink,
                            struct tutti_err *err)
{
    struct start *s = calloc(1, sizeof(*s));
    uint32_t listening = 0;
    int status = s == NULL ? tutti_nomem(err) : 0;

    *ret_started = false;
    *ret_listen_fd = -1;
    if (status < 0)
        return status;
    s->tasks = tasks;
    s->listen_fd = calloc(tasks->servers, sizeof(s->listen_fd[0]));
    s->port = calloc(tasks->servers, sizeof(s->port[0]));
    if (s->listen_fd == NULL || s->port == NULL)
        status = tutti_nomem(err);
    while (status == 0 && listening < tasks->servers) {
        status = listen_here(&s->listen_fd[listening], &s->port[listening], err);
        listening += status == 0;
    }
    if (status == 0)
        status = start_all(args, s, ret_started, ret_listen_fd, sink, err);
    for (uint32_t i = 0; i < listening && (*ret_started || status < 0); i++)
        close(s->listen_fd[i]);
    free(s->listen_fd);
    free(s->port);
    free(s);
    return status;
}
