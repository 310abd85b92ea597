/* Why a run came to rest before its end: a message without its other half, or a cycle. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/schedule/dry_run.h"
#include "runtime/schedule/step.h"
#include "runtime/status.h"

enum { CYCLE_SHOWN_MAX = 3 };

/* The RECV for which nobody will ever send: its sender is at its end. */
static bool is_orphan(const struct tutti_dry_run *run, const struct tutti_dry_run_chain *chain)
{
    const struct tutti_dry_run_chain *sender;

    if (chain->step == NULL || chain->step->kind != TUTTI_RECV)
        return false;
    if ((chain->step->flags & TUTTI_STEP_DEP) != 0 &&
        !tutti_dry_run_completed(tutti_dry_run_chain_of(run, chain->rank, chain->step->dep_lane),
                                 chain->step->dep_step))
        return false;
    sender = tutti_dry_run_chain_of(run, chain->step->peer, chain->lane);
    return sender == NULL || sender->step == NULL;
}

static int report_orphan(struct tutti_dry_run *run, struct tutti_dry_run_chain *chain,
                         struct tutti_err *err)
{
    struct tutti_dry_run_chain *sender =
        tutti_dry_run_chain_of(run, chain->step->peer, chain->lane);
    struct tutti_dry_run_connection *c =
        sender == NULL ? NULL : tutti_dry_run_connect(run, sender, chain->rank);
    char where[TUTTI_STEP_WHERE_BYTES];

    return tutti_fail(err, TUTTI_ECHECK,
                      "%s: waits for ever: rank %u sends rank %u only %" PRIu64
                      " messages on lane %u",
                      tutti_dry_run_where(chain, where), chain->step->peer, chain->rank,
                      c == NULL ? 0 : c->sent_count, chain->lane);
}

/* Waits at a CALL for a rank that is at its end. */
static bool is_forsaken(const struct tutti_dry_run *run, const struct tutti_dry_run_chain *chain)
{
    const struct tutti_dry_run_chain *other;

    if (chain->meeting == NULL)
        return false;
    other = tutti_dry_run_chain_of(run, tutti_dry_run_awaited(chain->meeting), chain->lane);
    return other == NULL || other->step == NULL;
}

static int report_forsaken(const struct tutti_dry_run_chain *chain, struct tutti_err *err)
{
    char where[TUTTI_STEP_WHERE_BYTES];

    return tutti_fail(err, TUTTI_ECHECK,
                      "%s: waits for ever: rank %u of its group calls less often on axis '%s', "
                      "lane %u",
                      tutti_dry_run_where(chain, where), tutti_dry_run_awaited(chain->meeting),
                      chain->meeting->axis.name, chain->lane);
}

/* The first SEND of this chain that nobody will ever receive: the receiver is at its end. */
static const struct tutti_dry_run_message *find_unreceived(const struct tutti_dry_run_chain *chain)
{
    const struct tutti_dry_run_message *m = chain->first_sent;

    while (m != NULL &&
           (m->received || (m->connection->to != NULL && m->connection->to->step != NULL)))
        m = m->next_sent;
    return m;
}

static int report_unreceived(const struct tutti_dry_run_chain *chain,
                             const struct tutti_dry_run_message *m, struct tutti_err *err)
{
    char where[TUTTI_STEP_WHERE_BYTES];

    return tutti_fail(err, TUTTI_ECHECK, "%s: rank %u never receives it",
                      tutti_step_where(chain->rank, chain->lane, m->index, &m->step, where),
                      m->connection->to_rank);
}

/* The chain that a blocked one waits for. Once orphans are ruled out there always is one. */
static const struct tutti_dry_run_chain *waits_for(struct tutti_dry_run *run,
                                                   const struct tutti_dry_run_chain *chain)
{
    const struct tutti_step *step = chain->step;
    const struct tutti_dry_run_message *m;
    const struct tutti_dry_run_chain *target;

    if ((step->flags & TUTTI_STEP_DEP) != 0) {
        target = tutti_dry_run_chain_of(run, chain->rank, step->dep_lane);
        if (step->dep_step >= target->index)
            return target;
        for (m = target->first_sent; m != NULL; m = m->next_sent)
            if (m->index == step->dep_step)
                return m->connection->to;
    }
    if (chain->meeting != NULL)
        return tutti_dry_run_chain_of(run, tutti_dry_run_awaited(chain->meeting), chain->lane);
    return tutti_dry_run_chain_of(run, step->peer, chain->lane);
}

static int report_cycle(struct tutti_dry_run *run, const struct tutti_dry_run_chain *chain,
                        struct tutti_err *err)
{
    char where[TUTTI_STEP_WHERE_BYTES];
    char text[CYCLE_SHOWN_MAX * (TUTTI_STEP_WHERE_BYTES + 32)] = "";
    const struct tutti_dry_run_chain *first;
    size_t used = 0;
    uint32_t shown = 0;

    for (uint32_t i = 0; i < run->chain_count; i++) /* as many steps surely end on the cycle */
        chain = waits_for(run, chain);
    first = chain;
    chain = waits_for(run, first);
    for (; chain != first && shown < CYCLE_SHOWN_MAX; chain = waits_for(run, chain), shown++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, " waits for %s, which",
                                 tutti_dry_run_where(chain, where));
    return tutti_fail(err, TUTTI_ECHECK, "%s%s waits for %s: a cycle",
                      tutti_dry_run_where(first, where), text, chain == first ? "it" : "others");
}

int tutti_dry_run_stuck(struct tutti_dry_run *run, struct tutti_err *err)
{
    const struct tutti_dry_run_message *m;

    for (uint32_t i = 0; i < run->chain_count; i++)
        if (is_orphan(run, &run->chains[i]))
            return report_orphan(run, &run->chains[i], err);
    for (uint32_t i = 0; i < run->chain_count; i++)
        if (is_forsaken(run, &run->chains[i]))
            return report_forsaken(&run->chains[i], err);
    for (uint32_t i = 0; i < run->chain_count; i++)
        if ((m = find_unreceived(&run->chains[i])) != NULL)
            return report_unreceived(&run->chains[i], m, err);
    for (uint32_t i = 0; i < run->chain_count; i++)
        if (run->chains[i].step != NULL)
            return report_cycle(run, &run->chains[i], err);
    return 0;
}
