/* What a coordinator must not leave undone: after each event nobody waits who could go on, nobody
 * stays who would leave, checkpoints that are due are begun, and all is counted as it was. */
#ifndef TUTTI_TESTS_RUNTIME_COORDINATOR_UNDONE_H
#define TUTTI_TESTS_RUNTIME_COORDINATOR_UNDONE_H

#include "tests/runtime/coordinator_rules.h"

static bool is_over(const struct world *w)
{
    return w->kind != QUEUE && w->step >= w->params.last_step;
}

/* Whether there is something that a member without an episode could begin. */
static bool could_go_on(const struct world *w, const struct node *node)
{
    switch (w->kind) {
    case ASYNC:
        return w->params.slack == 0 ||
               node->clock < slowest_clock(w, TUTTI_MEMBER_NONE) + w->params.slack;
    case SYNC:
        return w->params.late != TUTTI_LATE_ABORTED && oldest_token(w) != UINT64_MAX;
    case QUEUE:
        return node->admitted && w->queued_count > 0;
    case SUPERVISOR:
        return w->ready && node < &w->node[w->params.member_count - w->params.server_count];
    default:
        return false; /* see no_group() */
    }
}

/* elastic: enough members, and no step under way. */
static bool no_group(const struct world *w)
{
    uint32_t there = 0;

    for (uint32_t i = 0; i < w->params.member_count; i++) {
        if (w->node[i].busy != 0)
            return false;
        there += w->node[i].present && !w->node[i].over;
    }
    return there >= w->params.least_members && (w->group > 0 || there >= w->params.first_members);
}

static void undone_members(struct world *w)
{
    for (uint32_t i = 0; i < w->params.member_count; i++) {
        const struct node *node = &w->node[i];

        if (!node->present || node->over || node->busy != 0)
            continue;
        if (could_go_on(w, node))
            blame(w, "member %u waits, and could go on", i);
        if (node->leaving && !node->reported)
            blame(w, "member %u would leave, and is not let go", i);
    }
    if (w->kind == ELASTIC && no_group(w))
        blame(w, "no step is begun at step %llu", (unsigned long long)w->step);
}

/* Once a step has begun, all members of its group are in it. */
static void undone_group(struct world *w, uint32_t started)
{
    uint32_t grouped = 0;

    for (uint32_t i = 0; i < w->params.member_count; i++)
        grouped += w->node[i].grouped != 0;
    if (w->kind == ELASTIC && started > 0 && w->group == 1 && w->group_event == w->event_count &&
        started < w->params.first_members)
        blame(w, "%u members are the first group", started);
    if (w->kind == ELASTIC && started > 0 && started != grouped)
        blame(w, "%u of %u members of group %llu start", started, grouped,
              (unsigned long long)w->group);
}

/* What the actions of an event were. */
struct seen {
    bool saving; /* a checkpoint was being written before */
    bool saves;
    bool advanced;
    bool stays; /* elastic: of those who have done a step somebody stays */
    uint32_t started;
};

/* Before an action is held to the rules. */
static void see(const struct world *w, const struct tutti_coord_action *a, struct seen *seen)
{
    seen->saves |= a->kind == TUTTI_ACTION_SAVE;
    seen->started += a->kind == TUTTI_ACTION_START;
    if (a->kind != TUTTI_ACTION_ADVANCE)
        return;
    seen->advanced = true;
    for (uint32_t i = 0; i < w->params.member_count; i++)
        seen->stays |= w->node[i].reported && !w->node[i].leaving;
}

/* A checkpoint that is due: at once, or at the end of a step by a member that stays. */
static void undone_save(struct world *w, const struct tutti_coord_event *event,
                        const struct seen *seen)
{
    bool due = w->kind == SUPERVISOR
                   ? event->kind == TUTTI_EVENT_SAVE_DUE && w->ready && !is_over(w)
                   : w->kind == ELASTIC && seen->advanced && w->save_due && seen->stays;

    if (!due)
        return;
    w->save_due = false;
    if (!seen->saving && !seen->saves && w->step > w->saved)
        blame(w, "no checkpoint is begun at step %llu", (unsigned long long)w->step);
}

static void check_undone(struct world *w, const struct tutti_coord_event *event,
                         const struct seen *seen)
{
    if (!is_over(w))
        undone_members(w);
    undone_group(w, seen->started);
    undone_save(w, event, seen);
}

/* At the end: what the coordinator has counted. */
static void check_counted(struct world *w)
{
    const struct tutti_coordinator_stats *real = tutti_coordinator_stats(w->coordinator);
    const struct tutti_coordinator_stats *ours = &w->counted;

    if (real->started != ours->started || real->dropped_late != ours->dropped_late)
        blame(w, "%llu episodes and %llu late messages are counted, of %llu and %llu",
              (unsigned long long)real->started, (unsigned long long)real->dropped_late,
              (unsigned long long)ours->started, (unsigned long long)ours->dropped_late);
    if (w->kind <= SYNC &&
        (real->applied != ours->applied || real->dropped_stale != ours->dropped_stale))
        blame(w, "%llu gradients are counted and %llu stale ones, of %llu and %llu",
              (unsigned long long)real->applied, (unsigned long long)real->dropped_stale,
              (unsigned long long)ours->applied, (unsigned long long)ours->dropped_stale);
    if (w->kind <= SYNC &&
        (real->staleness_sum != ours->staleness_sum || real->staleness_max != ours->staleness_max ||
         memcmp(real->staleness, ours->staleness, sizeof(real->staleness)) != 0))
        blame(w, "the histogram of staleness is not that of the gradients");
    if (w->kind == QUEUE &&
        (real->completed != ours->completed || real->cancelled != ours->cancelled ||
         real->refused != ours->refused || real->submitted != real->completed + real->cancelled ||
         real->submitted + real->refused != w->next_closure))
        blame(w, "%llu closures are counted as complete, %llu as cancelled, %llu as refused",
              (unsigned long long)real->completed, (unsigned long long)real->cancelled,
              (unsigned long long)real->refused);
}

#endif
