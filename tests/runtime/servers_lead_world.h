/* A world for the lead of parameter servers: those that train, messages in the order of their
 * connections, some of which come again late; and the rules that the lead is held to, which know
 * nothing of how it works. */
#ifndef TUTTI_TESTS_RUNTIME_SERVERS_LEAD_WORLD_H
#define TUTTI_TESTS_RUNTIME_SERVERS_LEAD_WORLD_H

#include <stdarg.h>

#include "runtime/random.h"
#include "runtime/servers/lead.h"
#include "runtime/servers/store.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { TRAINERS_MAX = 5, SERVERS_MAX = 3, QUEUE_MAX = 256, LATE_MAX = 32 };

/* Ways in which what the lead says is made wrong, to see that the rules notice. */
enum spoil { SPOIL_NOTHING, SPOIL_TWICE, SPOIL_SKIP, SPOIL_FORGET, SPOIL_LATE, SPOIL_KINDS };

struct frame {
    enum tutti_server_message type;
    struct tutti_server_head head;
};

struct queue { /* in the order of its connection */
    struct frame frame[QUEUE_MAX];
    uint32_t first;
    uint32_t count;
};

struct trainer {
    bool alive;
    bool finished;
    struct queue in;
    struct queue out;
    bool busy;
    bool pulled;
    struct tutti_server_head work;
    /* what the rules keep, of a worker: */
    bool open;                     /* its last START is neither done nor aborted: */
    struct tutti_server_head last; /* which */
    uint64_t read_step;            /* of the weights that it has */
    uint64_t applied_generation;   /* its newest gradient that was applied */
    uint64_t applied_episode;
};

struct world {
    struct tutti_servers_params params;
    struct tutti_random random;
    enum spoil spoil;
    struct tutti_lead *lead;
    struct trainer trainer[TRAINERS_MAX];
    uint32_t trainer_count;
    bool server_alive[SERVERS_MAX];
    uint32_t gone; /* for good, from the end on: a trainer, or behind them a server; UINT32_MAX */
    struct frame late[LATE_MAX];
    uint32_t late_of[LATE_MAX];
    uint32_t late_count;
    double now_s;
    bool keeps;    /* there is a folder for checkpoints, */
    uint64_t disk; /* and its newest is of this step */
    /* the rules' own: */
    const struct tutti_server_head *coming; /* PULL or DONE that comes, and of whom */
    uint32_t coming_of;
    uint64_t sequence;
    uint64_t generation; /* of the last setting up that was asked for */
    uint64_t ready;      /* and of the last that was done */
    uint64_t step;
    uint64_t gathered; /* gradients of this step */
    uint64_t marked;   /* the verdict that copied */
    uint64_t applied;
    uint64_t late_drops;
    bool told; /* of the last step */
    bool over;
    bool stop_asked;
    char why[200]; /* what broke the rules; "": nothing */
};

__attribute__((format(printf, 2, 3))) static void blame(struct world *w, const char *format, ...)
{
    va_list arguments;

    if (w->why[0] != '\0')
        return;
    va_start(arguments, format);
    (void)vsnprintf(w->why, sizeof(w->why), format, arguments);
    va_end(arguments);
}

static bool chance(struct world *w, uint64_t one_in)
{
    return tutti_random_below(&w->random, one_in) == 0;
}

static void put(struct world *w, struct queue *queue, enum tutti_server_message type,
                const struct tutti_server_head *head)
{
    if (queue->count == QUEUE_MAX)
        blame(w, "more messages than are ever read");
    else
        queue->frame[(queue->first + queue->count++) % QUEUE_MAX] = (struct frame){type, *head};
}

static struct frame take(struct queue *queue)
{
    const struct frame frame = queue->frame[queue->first];

    queue->first = (queue->first + 1) % QUEUE_MAX;
    queue->count--;
    return frame;
}

static uint32_t worker_of(const struct world *w, uint32_t trainer)
{
    return trainer - (w->params.has_chief ? 1 : 0);
}

static struct trainer *worker(struct world *w, uint32_t index)
{
    return &w->trainer[index + (w->params.has_chief ? 1 : 0)];
}

static uint64_t gradients_of_a_step(const struct world *w)
{
    return !w->params.synchronous    ? 1
           : w->params.aggregate > 0 ? w->params.aggregate
                                     : w->params.worker_count;
}

static bool all_needed_are_there(const struct world *w)
{
    for (uint32_t s = 0; s < w->params.server_count; s++)
        if (!w->server_alive[s])
            return false;
    return w->trainer[0].alive;
}

static bool is_same(const struct tutti_server_head *a, const struct tutti_server_head *b)
{
    return a->generation == b->generation && a->incarnation == b->incarnation &&
           a->episode == b->episode;
}

/* ---- the rules ------------------------------------------------------------------------------- */

static void rule_apply(struct world *w, const struct tutti_server_head *v)
{
    struct trainer *t = worker(w, v->member);
    const uint64_t staleness = w->step - t->read_step;

    if (!t->alive || !t->open || !is_same(&t->last, v))
        blame(w, "a gradient of worker %u is applied after its time", v->member);
    if (v->generation < t->applied_generation ||
        (v->generation == t->applied_generation && v->episode <= t->applied_episode))
        blame(w, "a gradient of worker %u is applied twice", v->member);
    if (w->params.synchronous && t->last.step != w->step)
        blame(w, "a gradient of step %llu makes step %llu", (unsigned long long)t->last.step,
              (unsigned long long)w->step);
    if (!w->params.synchronous && w->params.staleness_max > 0 &&
        staleness > w->params.staleness_max)
        blame(w, "a gradient of worker %u is too old", v->member);
    t->open = false;
    t->applied_generation = v->generation;
    t->applied_episode = v->episode;
    w->applied++;
    if (++w->gathered > gradients_of_a_step(w))
        blame(w, "step %llu is made of too many", (unsigned long long)w->step);
}

static void rule_step(struct world *w, const struct tutti_server_head *v)
{
    if (w->told)
        blame(w, "step %llu has not been told", (unsigned long long)w->step);
    if (w->gathered != gradients_of_a_step(w))
        blame(w, "step %llu is made of too few", (unsigned long long)w->step);
    if (v->step != w->step + 1)
        blame(w, "step %llu follows step %llu", (unsigned long long)v->step,
              (unsigned long long)w->step);
    w->step++;
    w->gathered = 0;
    w->told = true;
}

/* APPLY and DROP are of the message that comes. */
static void rule_coming(struct world *w, const struct tutti_server_head *v)
{
    if (v->member >= w->params.worker_count || w->coming == NULL ||
        worker_of(w, w->coming_of) != v->member || !is_same(w->coming, v))
        blame(w, "verdict %d of what has not come", (int)v->number);
}

static void rule_verdict(struct world *w, const struct tutti_server_head *v)
{
    const bool is_gradient = v->number == TUTTI_VERDICT_APPLY || v->number == TUTTI_VERDICT_DROP;

    if (v->sequence != w->sequence + 1)
        blame(w, "verdict %llu follows verdict %llu", (unsigned long long)v->sequence,
              (unsigned long long)w->sequence);
    w->sequence = v->sequence;
    if (v->generation != w->ready || v->generation != w->generation)
        blame(w, "a verdict of a generation that is not set up");
    if (w->over && v->number != TUTTI_VERDICT_DROP)
        blame(w, "verdict %d after the end", (int)v->number);
    if (is_gradient)
        rule_coming(w, v);
    if (w->why[0] != '\0')
        return;
    switch ((enum tutti_server_verdict)v->number) {
    case TUTTI_VERDICT_APPLY:
        rule_apply(w, v);
        if (!w->params.synchronous)
            rule_step(w, v);
        break;
    case TUTTI_VERDICT_ADVANCE:
        if (!w->params.synchronous)
            blame(w, "asynchronous training gathers");
        rule_step(w, v);
        break;
    case TUTTI_VERDICT_DROP:
        if (is_same(&worker(w, v->member)->last, v))
            worker(w, v->member)->open = false;
        break;
    case TUTTI_VERDICT_MARK:
        if (v->step != w->step)
            blame(w, "a copy of step %llu at step %llu", (unsigned long long)v->step,
                  (unsigned long long)w->step);
        w->marked = v->sequence;
        break;
    }
}

static void rule_start(struct world *w, struct trainer *t, const struct tutti_server_head *head)
{
    if (!all_needed_are_there(w) || w->ready != head->generation)
        blame(w, "a worker is started before the model is set up");
    if (t->open && t->last.generation == head->generation)
        blame(w, "a worker is started that computes");
    t->open = true;
    t->last = *head;
    t->read_step = w->step;
}

static void rule_send(struct world *w, uint32_t trainer, enum tutti_server_message message,
                      const struct tutti_server_head *head)
{
    struct trainer *t = &w->trainer[trainer];

    if (!t->alive)
        blame(w, "message %d to trainer %u, who is not there", (int)message, trainer);
    switch (message) {
    case TUTTI_MESSAGE_START:
        rule_start(w, t, head);
        break;
    case TUTTI_MESSAGE_ABORT:
        if (t->last.generation == head->generation &&
            (head->episode == TUTTI_SERVER_ALL_EPISODES || head->episode == t->last.episode))
            t->open = false;
        break;
    case TUTTI_MESSAGE_SET_UP:
        if (trainer != 0 || head->generation <= w->generation || !all_needed_are_there(w))
            blame(w, "the model is set up by whom it must not, or too early");
        w->generation = head->generation;
        break;
    case TUTTI_MESSAGE_SAVE:
        if (trainer != 0 || head->sequence != w->marked || head->step != w->step)
            blame(w, "a checkpoint of what was not copied");
        break;
    case TUTTI_MESSAGE_FINISH:
        w->over = true;
        break;
    default:
        blame(w, "message %d is none of the lead", (int)message);
    }
}

/* ---- what the lead says ---------------------------------------------------------------------- */

static void on_send(void *context, uint32_t trainer, enum tutti_server_message message,
                    const struct tutti_server_head *head)
{
    struct world *w = context;

    if (w->spoil == SPOIL_FORGET && message == TUTTI_MESSAGE_START && chance(w, 8))
        return;
    rule_send(w, trainer, message, head);
    put(w, &w->trainer[trainer].in, message, head);
}

static void on_verdict(void *context, const struct tutti_server_head *verdict)
{
    struct world *w = context;
    struct tutti_server_head v = *verdict;

    if (w->spoil == SPOIL_SKIP && v.number != TUTTI_VERDICT_DROP && chance(w, 16))
        v.step++;
    rule_verdict(w, &v);
    if (w->spoil == SPOIL_TWICE && v.number == TUTTI_VERDICT_APPLY && chance(w, 8)) {
        v.sequence++;
        rule_verdict(w, &v);
    }
}

static void on_told(void *context, const struct tutti_servers_told *told)
{
    struct world *w = context;

    if (!w->told || told->step != w->step || told->gradients != gradients_of_a_step(w))
        blame(w, "step %llu of %u gradients is told at step %llu", (unsigned long long)told->step,
              told->gradients, (unsigned long long)w->step);
    if (!w->params.synchronous &&
        told->staleness != w->step - 1 - worker(w, told->worker)->read_step)
        blame(w, "a staleness of %llu is told", (unsigned long long)told->staleness);
    w->told = false;
}

#endif
