/* A driver of several workers: the coordinator `queue` says who runs which closure next, and real
 * connections carry it out; see cluster.h. */
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cluster.h"
#include "runtime/cluster/closures.h"
#include "runtime/cluster/protocol.h"
#include "runtime/coordinator.h"
#include "runtime/frames/connection.h"
#include "runtime/status.h"

static const tutti_ps RETURN_PS = 3600 * TUTTI_PS_PER_S;
static const tutti_ps OPEN_PS = 30 * TUTTI_PS_PER_S;
static const tutti_ps PAUSE_PS_MIN = 100 * TUTTI_PS_PER_MS; /* between tries to find one again */
static const tutti_ps PAUSE_PS_MAX = 5 * TUTTI_PS_PER_S;
static const tutti_ps TRY_PS = TUTTI_PS_PER_S; /* of a connection to one that was lost */

enum { TRIES = 8, QUEUE_BOUND = 262144, ADDRESSES_MAX = 4096, TRIES_SHARE = 10 };

struct worker {
    char *address;
    struct tutti_cluster_link *link; /* NULL: lost */
    uint32_t incarnation;            /* that the coordinator has given it */
    uint64_t episode;                /* that it has started; */
    uint64_t closure;                /* and its closure; 0: none */
    uint64_t running;                /* what it really runs: an aborted one goes on until its end */
    tutti_ps try_ps;                 /* lost: when it is tried again */
    tutti_ps pause_ps;
};

struct tutti_cluster_driver {
    struct tutti_cluster_opts opts;
    struct tutti_cluster_link_opts link;
    void *secret; /* that of link */
    struct tutti_coordinator *coordinator;
    struct tutti_closures closures;
    struct worker *workers;
    struct pollfd *polled;
    uint32_t present;
    tutti_ps alone_ps; /* since when none is present */
    tutti_ps try_ps;   /* when any that was lost may be tried */
    int error;         /* 0, or the status of the first that failed, not told yet */
    struct tutti_err error_text;
    struct tutti_cluster_stats stats;
};

/* ---- what the coordinator decides ------------------------------------------------------------ */

static void lose(struct tutti_cluster_driver *c, uint32_t index)
{
    struct worker *w = &c->workers[index];

    if (w->link == NULL)
        return;
    tutti_cluster_link_close(w->link);
    w->link = NULL;
    w->running = 0;
    w->pause_ps = PAUSE_PS_MIN;
    w->try_ps = tutti_frames_now() + w->pause_ps;
    if (--c->present == 0)
        c->alone_ps = tutti_frames_now();
}

/* Its worker is there and runs nothing: the closure goes out. What cannot be sent is noticed as the
 * worker's end, when that is heard. */
static void dispatch(struct tutti_cluster_driver *c, struct worker *w)
{
    const struct tutti_closure *closure = tutti_closures_find(&c->closures, w->closure);

    if (closure == NULL || w->link == NULL || w->running != 0)
        return;
    w->running = w->closure;
    (void)tutti_cluster_link_call(w->link, closure->number, closure->function, closure->data,
                                  closure->bytes, NULL);
}

static void cancel_all(struct tutti_cluster_driver *c)
{
    for (uint32_t i = 0; i < c->closures.used; i++) {
        struct tutti_closure *closure = &c->closures.slots[i];

        if (closure->state != TUTTI_CLOSURE_QUEUED)
            continue;
        closure->state = TUTTI_CLOSURE_CANCELLED;
        c->closures.open_count--;
        c->stats.cancelled++;
    }
}

static void carry_out(struct tutti_cluster_driver *c, const struct tutti_coord_action *action)
{
    struct worker *w = action->member < c->opts.address_count ? &c->workers[action->member] : NULL;

    switch (action->kind) {
    case TUTTI_ACTION_WELCOME:
        w->incarnation = action->incarnation;
        break;
    case TUTTI_ACTION_START:
        w->episode = action->episode;
        w->closure = action->number;
        dispatch(c, w);
        break;
    case TUTTI_ACTION_ABORT:
        w->closure = 0;
        break;
    case TUTTI_ACTION_CANCEL:
        cancel_all(c);
        break;
    default:
        break;
    }
}

/* Whether closure `number` was refused is the answer. */
static bool tell(struct tutti_cluster_driver *c, const struct tutti_coord_event *event)
{
    uint32_t count;
    const struct tutti_coord_action *actions =
        tutti_coordinator_event(c->coordinator, event, &count);
    bool refused = false;

    for (uint32_t i = 0; i < count; i++) {
        refused = refused || actions[i].kind == TUTTI_ACTION_REFUSE;
        carry_out(c, &actions[i]);
    }
    return refused;
}

/* ---- what workers say ------------------------------------------------------------------------ */

static struct tutti_coord_event event_of(const struct tutti_cluster_driver *c, uint32_t index,
                                         enum tutti_coord_event_kind kind)
{
    const struct worker *w = &c->workers[index];

    return (struct tutti_coord_event){
        .kind = kind, .member = index, .incarnation = w->incarnation, .episode = w->episode};
}

/* The first error stays until it has been told. */
static void note_error(struct tutti_cluster_driver *c, int status, const char *text)
{
    if (c->error == 0)
        c->error = tutti_fail(&c->error_text, (enum tutti_status) - status, "%s", text);
}

static int fail(struct tutti_cluster_driver *c, uint32_t index, struct tutti_closure *closure,
                int status, const char *text, struct tutti_err *err)
{
    const struct tutti_coord_event event = event_of(c, index, TUTTI_EVENT_FAILED);

    if (!tutti_closures_end(&c->closures, closure, TUTTI_CLOSURE_FAILED, status, text,
                            strlen(text)))
        return tutti_nomem(err);
    c->stats.cancelled++;
    note_error(c, status, text);
    c->workers[index].closure = 0;
    (void)tell(c, &event);
    return 0;
}

static int take_result(struct tutti_cluster_driver *c, uint32_t index,
                       const struct tutti_cluster_link_event *said, struct tutti_err *err)
{
    struct worker *w = &c->workers[index];
    const struct tutti_coord_event event = event_of(c, index, TUTTI_EVENT_DONE);
    struct tutti_closure *closure = tutti_closures_find(&c->closures, said->number);

    if (said->number != w->running)
        return 0;
    w->running = 0;
    if (said->number != w->closure || closure == NULL) { /* aborted meanwhile */
        dispatch(c, w);
        return 0;
    }
    if (said->kind == TUTTI_CLUSTER_LINK_FAILED)
        return fail(c, index, closure, said->status, said->data, err);
    if (!tutti_closures_end(&c->closures, closure, TUTTI_CLOSURE_DONE, 0, said->data, said->bytes))
        return tutti_nomem(err);
    c->stats.completed++;
    w->closure = 0;
    (void)tell(c, &event);
    return 0;
}

/* Its closure goes back to the end of the queue; one that has lost too many workers ends them. */
static int take_end(struct tutti_cluster_driver *c, uint32_t index, const char *why,
                    struct tutti_err *err)
{
    struct worker *w = &c->workers[index];
    struct tutti_closure *closure = tutti_closures_find(&c->closures, w->closure);
    const struct tutti_coord_event event = event_of(c, index, TUTTI_EVENT_LOST);
    char text[TUTTI_ERR_TEXT_BYTES];

    (void)snprintf(text, sizeof(text),
                   "a closure of function '%.100s' lost %u workers, last: %.700s",
                   closure == NULL ? "" : closure->function, c->opts.tries, why);
    lose(c, index);
    if (closure != NULL) {
        c->stats.lost++;
        if (++closure->lost_count >= c->opts.tries) {
            int status = fail(c, index, closure, -TUTTI_EIO, text, err);

            if (status < 0)
                return status;
        }
    }
    w->closure = 0;
    (void)tell(c, &event);
    return 0;
}

static int listen_to(struct tutti_cluster_driver *c, uint32_t index, struct tutti_err *err)
{
    struct worker *w = &c->workers[index];
    int status = 0;

    while (status == 0 && w->link != NULL && tutti_cluster_link_ready(w->link)) {
        struct tutti_cluster_link_event said;

        status = tutti_cluster_link_next(w->link, 0, &said, err);
        if (status < 0 || said.kind == TUTTI_CLUSTER_LINK_NOTHING)
            break;
        if (said.kind == TUTTI_CLUSTER_LINK_END)
            status = take_end(c, index, said.data, err);
        else if (said.kind == TUTTI_CLUSTER_LINK_DONE || said.kind == TUTTI_CLUSTER_LINK_FAILED)
            status = take_result(c, index, &said, err);
        else if (c->opts.line != NULL)
            c->opts.line(c->opts.line_data, index, said.kind == TUTTI_CLUSTER_LINK_NOTE, said.data);
    }
    return status;
}

/* ---- finding them, and finding them again ---------------------------------------------------- */

/* connect_ps and once: as of a link's opts. */
static int find(struct tutti_cluster_driver *c, uint32_t index, tutti_ps connect_ps, bool once,
                struct tutti_err *err)
{
    struct worker *w = &c->workers[index];
    const struct tutti_coord_event joined = {.kind = TUTTI_EVENT_JOINED, .member = index};
    char what[32];
    int status;

    (void)snprintf(what, sizeof(what), "worker %u", index);
    c->link.connect_ps = connect_ps;
    c->link.once = once;
    status = tutti_cluster_link_open(&c->link, w->address, what, &w->link, err);
    if (status < 0) {
        w->pause_ps = 2 * w->pause_ps < PAUSE_PS_MAX ? 2 * w->pause_ps : PAUSE_PS_MAX;
        w->try_ps = tutti_frames_now() + w->pause_ps;
        return status;
    }
    c->present++;
    (void)tell(c, &joined);
    return 0;
}

/* When one that was lost is tried again. Those that are there wait meanwhile: for a host that does
 * not answer no more than a tenth of the time. */
static tutti_ps next_try(const struct tutti_cluster_driver *c, const struct worker *w)
{
    return c->present > 0 && c->try_ps > w->try_ps ? c->try_ps : w->try_ps;
}

/* Tries the one whose turn came first. Another version or secret is no reason to wait. */
static void try_lost(struct tutti_cluster_driver *c)
{
    const tutti_ps now_ps = tutti_frames_now();
    const uint32_t count = c->opts.address_count;
    uint32_t first = count;
    struct tutti_err last;

    for (uint32_t i = 0; i < count; i++)
        if (c->workers[i].link == NULL &&
            (first == count || c->workers[i].try_ps < c->workers[first].try_ps))
            first = i;
    if (first == count || now_ps < next_try(c, &c->workers[first]))
        return;
    if (find(c, first, TRY_PS, true, &last) == -TUTTI_EINVAL)
        c->workers[first].try_ps = INT64_MAX;
    c->try_ps = tutti_frames_due((TRIES_SHARE - 1) * (tutti_frames_now() - now_ps));
}

static int find_lost(struct tutti_cluster_driver *c, struct tutti_err *err)
{
    char time[TUTTI_UNIT_TEXT_BYTES];

    try_lost(c);
    if (c->present == 0 && tutti_frames_now() - c->alone_ps > c->opts.return_ps)
        return tutti_fail(err, TUTTI_EIO, "none of %u worker%s has come back within %s",
                          c->opts.address_count, c->opts.address_count == 1 ? "" : "s",
                          tutti_print_time(c->opts.return_ps, time));
    return 0;
}

/* What is there now, or comes until due_ps. */
static int move(struct tutti_cluster_driver *c, tutti_ps due_ps, struct tutti_err *err)
{
    tutti_ps wake_ps = due_ps;
    bool ready = false;
    int status = find_lost(c, err);

    for (uint32_t i = 0; i < c->opts.address_count; i++) {
        const struct worker *w = &c->workers[i];

        c->polled[i] = (struct pollfd){.fd = w->link != NULL ? tutti_cluster_link_fd(w->link) : -1,
                                       .events = POLLIN};
        ready = ready || (w->link != NULL && tutti_cluster_link_ready(w->link));
        if (w->link == NULL && next_try(c, w) < wake_ps)
            wake_ps = next_try(c, w);
    }
    if (status == 0 && !ready)
        (void)poll(c->polled, c->opts.address_count, tutti_frames_left_ms(wake_ps));
    for (uint32_t i = 0; i < c->opts.address_count && status == 0; i++)
        status = listen_to(c, i, err);
    return status;
}

static tutti_ps later(tutti_ps a, tutti_ps b)
{
    return a > b ? a : b;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What all connections have in common. The secret is the caller's, who may forget it. */
static int prepare_link(struct tutti_cluster_driver *c, struct tutti_err *err)
{
    c->link = (struct tutti_cluster_link_opts){.size = sizeof(c->link),
                                               .bytes_max = c->opts.bytes_max,
                                               .deadline_ps = c->opts.deadline_ps};
    if (c->opts.secret == NULL)
        return 0;
    c->secret = malloc(c->opts.secret_bytes + 1);
    if (c->secret == NULL)
        return tutti_nomem(err);
    memcpy(c->secret, c->opts.secret, c->opts.secret_bytes);
    c->link.secret = c->secret;
    c->link.secret_bytes = c->opts.secret_bytes;
    return 0;
}

static int open_all(struct tutti_cluster_driver *c, struct tutti_err *err)
{
    const struct tutti_coordinator_params params = {.size = sizeof(params),
                                                    .member_count = c->opts.address_count,
                                                    .queue_bound = c->opts.queue_bound};
    const struct tutti_coordinator_ops *ops;
    const tutti_ps due_ps = tutti_frames_due(c->opts.deadline_ps);
    int status = tutti_coordinator_find("queue", &ops, err);

    if (status == 0)
        status = tutti_coordinator_new(ops, &params, &c->coordinator, err);
    for (uint32_t i = 0; i < c->opts.address_count && status == 0; i++) {
        c->workers[i].address = strdup(c->opts.addresses[i]);
        c->workers[i].pause_ps = PAUSE_PS_MIN;
        if (c->workers[i].address == NULL)
            return tutti_nomem(err);
        status = find(c, i, later(due_ps - tutti_frames_now(), TRY_PS), false, err);
        if (status == -TUTTI_EIO && (c->present > 0 || i + 1 < c->opts.address_count))
            status = 0;
    }
    return status;
}

int tutti_cluster_open(const struct tutti_cluster_opts *opts, struct tutti_cluster_driver **ret,
                       struct tutti_err *err)
{
    struct tutti_cluster_driver *c = calloc(1, sizeof(*c));
    int status = c == NULL ? tutti_nomem(err)
                           : tutti_take("tutti_cluster_opts", &c->opts, sizeof(c->opts), opts,
                                        TUTTI_BYTES_TO(struct tutti_cluster_opts, line_data), err);

    if (status < 0) {
        free(c);
        return status;
    }
    tutti_closures_init(&c->closures);
    if (c->opts.address_count == 0 || c->opts.address_count > ADDRESSES_MAX) {
        status = tutti_fail(err, TUTTI_EINVAL, "a cluster of %u workers (1 to %d)",
                            c->opts.address_count, ADDRESSES_MAX);
        free(c);
        return status;
    }
    c->opts.deadline_ps = c->opts.deadline_ps > 0 ? c->opts.deadline_ps : OPEN_PS;
    c->opts.return_ps = c->opts.return_ps > 0 ? c->opts.return_ps : RETURN_PS;
    c->opts.tries = c->opts.tries > 0 ? c->opts.tries : TRIES;
    c->opts.bytes_max = c->opts.bytes_max > 0 ? c->opts.bytes_max : TUTTI_CLUSTER_BYTES_MAX;
    c->opts.queue_bound = c->opts.queue_bound > 0 ? c->opts.queue_bound : QUEUE_BOUND;
    c->workers = calloc(c->opts.address_count, sizeof(*c->workers));
    c->polled = calloc(c->opts.address_count, sizeof(*c->polled));
    status = c->workers == NULL || c->polled == NULL ? tutti_nomem(err) : prepare_link(c, err);
    if (status == 0)
        status = open_all(c, err);
    if (status < 0) {
        tutti_cluster_close(c);
        return status;
    }
    *ret = c;
    return 0;
}

static int tell_error(struct tutti_cluster_driver *c, struct tutti_err *err)
{
    int status = c->error;

    if (err != NULL)
        *err = c->error_text;
    c->error = 0;
    return status;
}

/* The coordinator has its own memory of an error, which one refusal clears. */
static int submit(struct tutti_cluster_driver *c, struct tutti_closure *closure,
                  struct tutti_err *err)
{
    const struct tutti_coord_event event = {.kind = TUTTI_EVENT_SUBMITTED,
                                            .number = closure->number};
    const uint64_t number = closure->number;
    bool refused = tell(c, &event);

    if (refused)
        refused = tell(c, &event);
    if (!refused)
        return 0;
    tutti_closures_forget(&c->closures, tutti_closures_find(&c->closures, number));
    return tutti_fail(err, TUTTI_ECHECK, "the queue has no room");
}

int tutti_cluster_schedule(struct tutti_cluster_driver *cluster, const char *function,
                           const void *input, uint64_t bytes, tutti_ps timeout_ps,
                           uint64_t *ret_closure, struct tutti_err *err)
{
    const tutti_ps due_ps = tutti_frames_due(timeout_ps);
    struct tutti_closure *closure;
    uint64_t number;
    int status;

    if (bytes > cluster->opts.bytes_max)
        return tutti_fail(err, TUTTI_EINVAL, "an input of %llu bytes (at most %llu)",
                          (unsigned long long)bytes, (unsigned long long)cluster->opts.bytes_max);
    if (strlen(function) >= TUTTI_CLUSTER_FUNCTION_BYTES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a function's name of %zu bytes (at most %d)",
                          strlen(function), TUTTI_CLUSTER_FUNCTION_BYTES_MAX - 1);
    status = move(cluster, 0, err);

    while (status == 0 && cluster->error == 0 &&
           tutti_coordinator_queued(cluster->coordinator) >= cluster->opts.queue_bound) {
        if (tutti_frames_left_ms(due_ps) == 0)
            return tutti_fail(err, TUTTI_ETIME, "%u closures wait, and there is no room for more",
                              cluster->opts.queue_bound);
        status = move(cluster, due_ps, err);
    }
    if (status == 0 && cluster->error < 0)
        return tell_error(cluster, err);
    if (status < 0)
        return status;
    closure = tutti_closures_add(&cluster->closures, function, input, bytes);
    if (closure == NULL)
        return tutti_nomem(err);
    number = closure->number;
    status = submit(cluster, closure, err);
    if (status < 0)
        return status;
    cluster->stats.scheduled++;
    *ret_closure = number;
    return 0;
}

int tutti_cluster_join(struct tutti_cluster_driver *cluster, tutti_ps timeout_ps,
                       struct tutti_err *err)
{
    const tutti_ps due_ps = tutti_frames_due(timeout_ps);
    int status = move(cluster, 0, err);

    while (status == 0 && cluster->closures.open_count > 0) {
        if (tutti_frames_left_ms(due_ps) == 0)
            return tutti_fail(err, TUTTI_ETIME, "%u closures have not ended",
                              cluster->closures.open_count);
        status = move(cluster, due_ps, err);
    }
    return status == 0 && cluster->error < 0 ? tell_error(cluster, err) : status;
}

int tutti_cluster_fetch(struct tutti_cluster_driver *cluster, uint64_t closure, tutti_ps timeout_ps,
                        const void **ret_data, uint64_t *ret_bytes, struct tutti_err *err)
{
    const tutti_ps due_ps = tutti_frames_due(timeout_ps);
    const struct tutti_closure *one = tutti_closures_find(&cluster->closures, closure);
    int status = one == NULL ? 0 : move(cluster, 0, err);

    while (status == 0 && one != NULL && one->state == TUTTI_CLOSURE_QUEUED) {
        if (tutti_frames_left_ms(due_ps) == 0)
            return tutti_fail(err, TUTTI_ETIME, "a closure of function '%.100s' has not ended",
                              one->function);
        status = move(cluster, due_ps, err);
    }
    if (status < 0)
        return status;
    if (one == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "there is no closure %llu (or it was forgotten)",
                          (unsigned long long)closure);
    if (one->state == TUTTI_CLOSURE_FAILED)
        return tutti_fail(err, (enum tutti_status) - one->status, "%s", (const char *)one->data);
    if (one->state == TUTTI_CLOSURE_CANCELLED)
        return tutti_fail(err, TUTTI_ECHECK, "it was cancelled: another closure has failed");
    *ret_data = one->data;
    *ret_bytes = one->bytes;
    return 0;
}

void tutti_cluster_forget(struct tutti_cluster_driver *cluster, uint64_t closure)
{
    struct tutti_closure *one = tutti_closures_find(&cluster->closures, closure);

    if (one != NULL && one->state != TUTTI_CLOSURE_QUEUED)
        tutti_closures_forget(&cluster->closures, one);
}

struct tutti_cluster_stats tutti_cluster_stats(const struct tutti_cluster_driver *cluster)
{
    struct tutti_cluster_stats stats = cluster->stats;

    stats.present = cluster->present;
    return stats;
}

void tutti_cluster_close(struct tutti_cluster_driver *cluster)
{
    if (cluster == NULL)
        return;
    for (uint32_t i = 0; cluster->workers != NULL && i < cluster->opts.address_count; i++) {
        tutti_cluster_link_close(cluster->workers[i].link);
        free(cluster->workers[i].address);
    }
    tutti_coordinator_free(cluster->coordinator);
    tutti_closures_done(&cluster->closures);
    free(cluster->workers);
    free(cluster->polled);
    free(cluster->secret);
    free(cluster);
}
