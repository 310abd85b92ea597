/* What a search finds goes by coarse prices: of the plans that come first the exact ones, by which
 * they are ranked again; and plans that are as good as others, folded into them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/plan/search.h"
#include "topo/topo.h"

/* An exact price takes some 2 us a device of the machine. Of so many devices, all machines
 * together, plans are priced, but a few of any. */
enum { DEVICES_MOST = 1 << 18, PLANS_LEAST = 5, FEW = 4 };

/* ---- as good --------------------------------------------------------------------------------- */

/* Whether sequences are divided otherwise, and that alone, and it makes no difference of 0.1 %. */
bool plan_is_alike(const struct tutti_plan_found *a, const struct tutti_plan_found *b)
{
    const struct tutti_parallel *p = &a->plan.parallel;
    const struct tutti_parallel *q = &b->plan.parallel;
    tutti_ps more_ps = b->step_ps > a->step_ps ? b->step_ps - a->step_ps : a->step_ps - b->step_ps;

    return a->plan.machine == b->plan.machine && p->tensor == q->tensor && p->expert == q->expert &&
           p->pipeline == q->pipeline && a->exact == b->exact && a->in_time == b->in_time &&
           a->in_budget == b->in_budget && more_ps <= a->step_ps / 1000;
}

/* What is alike stays in the one that comes first. */
static void fold(struct tutti_plan_found *found, uint32_t *count)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < *count; i++) {
        uint32_t k = 0;

        while (k < kept && !plan_is_alike(&found[k], &found[i]))
            k++;
        if (k < kept)
            found[k].alike_count += 1 + found[i].alike_count;
        else
            found[kept++] = found[i];
    }
    *count = kept;
}

/* ---- exact prices ---------------------------------------------------------------------------- */

static void take_out(struct tutti_plan_found *found, uint32_t at, uint32_t *count)
{
    (*count)--;
    memmove(&found[at], &found[at + 1], (*count - at) * sizeof(*found));
}

/* What is refused when it is looked at exactly is no plan: it is taken out. */
int plan_price_exactly(const struct tutti_plan_ask *ask, struct tutti_plan_found *found,
                       uint32_t at, uint32_t *count, struct tutti_err *err)
{
    struct tutti_plan_ask exact_ask = *ask;
    struct plan_field field = plan_field_of(&exact_ask, found[at].plan.machine);
    struct tutti_plan_found exact = found[at];
    struct tutti_err why = {""};
    int status;

    exact_ask.exact = true;
    status = plan_price(&field, &found[at].plan, &exact, &why);
    if (status == -TUTTI_ENOMEM)
        return tutti_nomem(err);
    if (status < 0) {
        take_out(found, at, count);
        return 0;
    }
    exact.footprint = found[at].footprint;
    exact.coarse_rank = found[at].coarse_rank;
    exact.alike_count = found[at].alike_count;
    plan_judge(&field, &exact);
    found[at] = exact;
    return 0;
}

/* The first of those wanted, or of a machine's, that is not exact; `count`: none. */
static uint32_t first_coarse(const struct tutti_plan_found *found, uint32_t count, uint32_t wanted,
                             bool *seen, uint32_t machine_count)
{
    memset(seen, 0, machine_count * sizeof(*seen));
    for (uint32_t i = 0; i < count; i++) {
        if (!found[i].exact && (i < wanted || !seen[found[i].plan.machine]))
            return i;
        seen[found[i].plan.machine] = true;
    }
    return count;
}

static void settle(const struct tutti_plan_ask *ask, struct tutti_plan_found *found,
                   uint32_t *count)
{
    plan_rank(ask->goal, found, *count);
    if (ask->given == NULL)
        fold(found, count);
}

int plan_rank_exactly(const struct tutti_plan_ask *ask, struct tutti_plan_found *found,
                      uint32_t *count, struct tutti_err *err)
{
    bool *seen = calloc(ask->machine_count, sizeof(*seen));
    uint32_t wanted = ask->best_count + PLAN_MARGIN;
    uint64_t devices = 0;
    int status = seen == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < *count; i++)
        found[i].coarse_rank = i;
    for (uint32_t plans = 0; status == 0;) {
        uint32_t at = first_coarse(found, *count, wanted, seen, ask->machine_count);

        if (at == *count && wanted == ask->best_count)
            break;
        if (at == *count) { /* from here on, what comes first by what is known now */
            wanted = ask->best_count;
            settle(ask, found, count);
            continue;
        }
        devices += found[at].device_count;
        if (devices > DEVICES_MOST && plans >= PLANS_LEAST)
            break;
        status = plan_price_exactly(ask, found, at, count, err);
        plans++;
        if (status == 0 && wanted == ask->best_count)
            settle(ask, found, count);
    }
    free(seen);
    if (status == 0)
        settle(ask, found, count);
    return status;
}

int plan_field_first(struct plan_field *field, struct tutti_plan_found *ret, bool *ret_any,
                     struct tutti_err *err)
{
    struct tutti_plan_found few[FEW];
    uint32_t count = 0;
    int status = plan_field_search(field, FEW, few, &count, err);

    for (uint32_t at = count; at-- > 0 && status == 0;)
        if (!few[at].exact)
            status = plan_price_exactly(field->ask, few, at, &count, err);
    *ret_any = status == 0 && count > 0;
    if (!*ret_any)
        return status;
    plan_rank(TUTTI_PLAN_TIME, few, count);
    *ret = few[0];
    return 0;
}
