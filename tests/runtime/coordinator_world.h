/* A world for coordinators: members that work, are lost and come back, and messages that arrive in
 * any order, late or twice, all drawn from a seed; and the rules that a coordinator is held to,
 * which know nothing of how it works. */
#ifndef TUTTI_TESTS_RUNTIME_COORDINATOR_WORLD_H
#define TUTTI_TESTS_RUNTIME_COORDINATOR_WORLD_H

#include <stdarg.h>

#include "runtime/coordinator.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { NODES_MAX = 6, POOL_MAX = 64, CLOSURES = 64, DELIVERIES_MAX = 20000, WHY_BYTES = 160 };

enum { WEIGHTS_NONE = -1, WEIGHTS_LOST = -2 };

/* sync: tokens of so many steps are kept */
enum { TOKEN_STEPS_KEPT = 8 };

enum world_kind { ASYNC, SYNC, QUEUE, SUPERVISOR, ELASTIC, WORLD_KINDS };

/* Ways in which the actions of a coordinator are made wrong, to see that the rules notice. */
enum spoil {
    SPOIL_NOTHING,
    SPOIL_TWICE,  /* takes a gradient or a result twice */
    SPOIL_FORGET, /* forgets to start somebody */
    SPOIL_TAKE,   /* takes what was to be dropped */
    SPOIL_SKIP,   /* leaves a step out */
    SPOIL_CROWD,  /* starts somebody who is at work */
    SPOIL_KINDS
};

/* A member as it is, and as the rules have it to be. */
struct node {
    bool alive;
    bool joining;         /* its JOINED is on the way */
    bool finished;        /* was told so */
    uint32_t incarnation; /* as it was told; 0: not yet */
    /* what the rules keep: */
    bool present;          /* for the coordinator */
    uint32_t welcomed;     /* the incarnation last given */
    uint64_t busy;         /* its episode; 0: none */
    uint64_t step;         /* of that; async: when it read the weights; queue: the closure */
    uint64_t clock;        /* async: episodes done */
    uint64_t joins_before; /* async: as many had joined when it began */
    bool reported;         /* elastic: has done the step under way */
    int64_t weights;       /* elastic: of which step, WEIGHTS_NONE, or its source is no more; */
    int64_t before;        /* and those that it can go back to */
    bool over;             /* was told to finish, and has not come again */
    bool missing;          /* queue: lost, and not yet back */
    bool admitted;         /* queue: closures are for it, too */
    bool leaving;          /* elastic: would leave */
    uint32_t grouped;      /* elastic: its incarnation in the present group; 0: it is not in it */
};

struct world {
    enum world_kind kind;
    enum spoil spoil;
    struct tutti_coordinator *coordinator;
    struct tutti_coordinator_params params; /* as the rules have them */
    struct tutti_random random;
    struct node node[NODES_MAX];
    struct tutti_coord_event pool[POOL_MAX]; /* messages on the way */
    uint32_t pool_count;
    uint64_t event_count;
    char why[WHY_BYTES]; /* what broke the rules; empty: nothing */
    /* the rules' own: */
    uint64_t step;
    uint64_t episode; /* the last one */
    uint64_t joins;
    uint64_t gathered;                /* sync: gradients of this step */
    uint64_t token[TOKEN_STEPS_KEPT]; /* sync: [step % TOKEN_STEPS_KEPT], of those steps */
    uint64_t queued[CLOSURES * 2];
    uint32_t queued_count;
    uint8_t fate[CLOSURES]; /* queue: 0 not submitted, 1 accepted, 2 complete, 3 cancelled */
    uint64_t next_closure;
    bool error_pending;
    bool ready;        /* supervisor: the model is set up */
    uint64_t set_up;   /* the episode in which it is being */
    uint64_t progress; /* supervisor: what workers have come to */
    uint64_t saved;    /* the last checkpoint */
    uint64_t saving;   /* the episode of the one being written, 0 none; */
    uint64_t saving_step;
    uint32_t saver;
    bool save_due;        /* elastic: at the end of the step */
    uint64_t group;       /* elastic: the number of the present one, */
    uint64_t group_event; /* and the event that made it */
    struct tutti_coordinator_stats counted;
};

__attribute__((format(printf, 2, 3))) static void blame(struct world *w, const char *format, ...)
{
    va_list arguments;

    if (w->why[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(w->why, sizeof(w->why), format, arguments);
    va_end(arguments);
}

/* ---- messages ---------------------------------------------------------------------------------
 */

static void send_event(struct world *w, struct tutti_coord_event event)
{
    if (w->pool_count == POOL_MAX)
        blame(w, "too many messages on the way");
    else
        w->pool[w->pool_count++] = event;
}

static void send_from(struct world *w, uint32_t member, enum tutti_coord_event_kind kind,
                      uint64_t episode, uint64_t number)
{
    send_event(
        w, (struct tutti_coord_event){kind, member, w->node[member].incarnation, episode, number});
}

static bool chance(struct world *w, uint64_t one_in)
{
    return tutti_random_below(&w->random, one_in) == 0;
}

/* ---- what members do --------------------------------------------------------------------------
 */

static void begin_episode(struct world *w, const struct tutti_coord_action *action)
{
    uint32_t m = action->member;

    switch (w->kind) {
    case ASYNC:
        if (chance(w, 2))
            send_from(w, m, TUTTI_EVENT_PULLED, action->episode, 0);
        send_from(w, m, TUTTI_EVENT_DONE, action->episode, 0);
        break;
    case QUEUE:
        send_from(w, m, chance(w, 40) ? TUTTI_EVENT_FAILED : TUTTI_EVENT_DONE, action->episode, 0);
        break;
    case SUPERVISOR:
        w->progress = w->progress < action->step ? action->step : w->progress;
        send_from(w, m, TUTTI_EVENT_PROGRESS, action->episode, ++w->progress);
        break;
    default: /* elastic: without weights it waits for them in vain */
        if (w->kind != ELASTIC || w->node[m].weights != WEIGHTS_LOST)
            send_from(w, m, TUTTI_EVENT_DONE, action->episode, 0);
        break;
    }
}

static void obey(struct world *w, const struct tutti_coord_action *action)
{
    struct node *node;

    if (action->member == TUTTI_MEMBER_NONE)
        return;
    node = &w->node[action->member];
    if (action->kind == TUTTI_ACTION_WELCOME && node->alive && node->joining) {
        node->incarnation = action->incarnation;
        node->joining = false;
    }
    if (!node->alive || node->incarnation != action->incarnation)
        return;
    switch (action->kind) {
    case TUTTI_ACTION_START:
        begin_episode(w, action);
        break;
    case TUTTI_ACTION_INITIALISE:
    case TUTTI_ACTION_RESTORE:
        if (w->kind == SUPERVISOR) {
            w->progress = action->step;
            send_from(w, action->member, TUTTI_EVENT_DONE, action->episode, 0);
        }
        break;
    case TUTTI_ACTION_SAVE:
        send_from(w, action->member, TUTTI_EVENT_SAVED, action->episode, action->step);
        break;
    case TUTTI_ACTION_FINISH:
        node->finished = true;
        break;
    default:
        break;
    }
}

static void crash(struct world *w, uint32_t m)
{
    struct node *node = &w->node[m];

    if (!node->alive || node->joining || node->incarnation == 0 || w->pool_count > POOL_MAX / 2)
        return;
    node->alive = false;
    send_from(w, m, TUTTI_EVENT_LOST, 0, 0);
}

static void come(struct world *w, uint32_t m)
{
    struct node *node = &w->node[m];

    if (node->alive || w->pool_count > POOL_MAX / 2)
        return;
    node->alive = true;
    node->joining = true;
    node->finished = false;
    node->incarnation = 0;
    node->weights = node->before = WEIGHTS_NONE;
    send_event(w, (struct tutti_coord_event){.kind = TUTTI_EVENT_JOINED, .member = m});
}

#endif
