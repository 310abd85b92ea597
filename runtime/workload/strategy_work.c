/* The work table of a step: what each layer reads and writes, and the optimizer. */
#include <assert.h>
#include <stdio.h>

#include "runtime/arena.h"
#include "runtime/wide.h"
#include "runtime/workload/strategy_write.h"

enum { NAME_BYTES = 96 };

static const char *name_of(const struct tutti_step_writer *w, const struct tutti_plan_layer *l,
                           const char *what)
{
    char name[NAME_BYTES];

    if (l->layer->repeat > 1)
        (void)snprintf(name, sizeof(name), "%.64s.%u.%s", l->layer->name, l->repeat_index, what);
    else
        (void)snprintf(name, sizeof(name), "%.64s.%s", l->layer->name, what);
    return tutti_arena_copy_text(w->plan.arena, name);
}

/* The kind of the most FLOPs. */
static enum tutti_work_kind kind_of(const struct tutti_layer *layer)
{
    enum tutti_work_kind kind = TUTTI_WORK_OTHER;
    uint64_t most = 0;

    for (uint32_t i = 0; i < layer->operation_count; i++) {
        if (layer->operations[i].flops < most)
            continue;
        most = layer->operations[i].flops;
        kind = layer->operations[i].kind;
    }
    return kind;
}

/* Weights that a layer reads: gathered ones, or the rank's own. */
static void reads_weights(const struct tutti_step_writer *w, const struct tutti_plan_layer *l,
                          struct tutti_work *work)
{
    struct tutti_region *r;
    const struct tutti_plan_pack *p;

    if (!tutti_writer_shares(w) || l->gather == UINT32_MAX || w->plan.params.rank_count == 1)
        return;
    r = tutti_arena_take(w->plan.arena, 1, sizeof(*r));
    if (r == NULL)
        return;
    p = &w->plan.packs[l->gather];
    *r = (struct tutti_region){.buf = TUTTI_BUF_SCRATCH,
                               .offset = p->gather_offset,
                               .bytes = p->padded * w->plan.params.weight_bytes};
    work->reads = r;
    work->read_count = 1;
}

static void writes_gradients(struct tutti_plan_layer *l, struct tutti_work *work)
{
    work->writes = l->gradients[0].bytes > 0 ? l->gradients : l->gradients + 1;
    work->write_count =
        (l->gradients[0].bytes > 0 ? 1u : 0u) + (l->gradients[1].bytes > 0 ? 1u : 0u);
}

static bool list_layer(struct tutti_step_writer *w, struct tutti_plan_layer *l)
{
    struct tutti_work *forward = &w->work[w->work_count++];
    struct tutti_work *backward = &w->work[w->work_count++];
    struct tutti_work *adding = &w->work[w->work_count++];

    *forward = (struct tutti_work){.name = name_of(w, l, "forward"),
                                   .kind = kind_of(l->layer),
                                   .duration_ps = l->times->forward_ps};
    reads_weights(w, l, forward);
    *backward = *forward;
    backward->name = name_of(w, l, "backward");
    backward->duration_ps = l->times->backward_ps;
    writes_gradients(l, backward);
    *adding = *backward;
    adding->name = name_of(w, l, "backward-add");
    if (adding->write_count > 0) {
        adding->reads = adding->writes;
        adding->read_count = adding->write_count;
    }
    return forward->name != NULL && backward->name != NULL && adding->name != NULL;
}

/* Two entries of pack p: its shard of one micro-batch, which must be whole, begins the sum of all,
 * or is added to it. */
static bool list_sums(struct tutti_step_writer *w)
{
    for (uint32_t i = 0; i < w->plan.pack_count; i++) {
        const struct tutti_plan_pack *p = &w->plan.packs[i];
        struct tutti_region *regions = tutti_arena_take(w->plan.arena, 2, sizeof(*regions));
        struct tutti_work *begins = &w->work[w->work_count++];

        if (regions == NULL)
            return false;
        regions[0] = (struct tutti_region){.buf = TUTTI_BUF_SCRATCH,
                                           .whole = (uint8_t)(1 + tutti_writer_shard_axis(w)),
                                           .offset = p->result_offset,
                                           .bytes = p->padded / w->plan.shard_ranks *
                                                    w->plan.params.gradient_bytes};
        regions[1] = regions[0];
        regions[1].whole = 0;
        regions[1].offset = p->sum_offset;
        *begins = (struct tutti_work){.name = "sum-begin",
                                      .kind = TUTTI_WORK_ELEMENTWISE,
                                      .reads = regions,
                                      .read_count = 1,
                                      .writes = regions + 1,
                                      .write_count = 1};
        w->work[w->work_count] = *begins;
        w->work[w->work_count].name = "sum-add";
        w->work[w->work_count++].read_count = 2;
    }
    return true;
}

/* What of the time for all gradients each entry takes, in eighths (sim/train/train.c): gradients
 * and what was left out are read, their sum is written and read, once for the first factors, twice
 * by a selection; once more for the second factors; then what is left out and the gradients that
 * come of it all are written, with a reading between them. */
static const uint8_t eighths[2][TUTTI_PLAN_COMPRESSIONS] = {{6, 0, 2}, {4, 1, 3}};

/* Three entries of a pack: what is sent is made of its gradients; the second factors of their
 * matrices, of the sum of the first; gradients again, of what came of it. */
static bool list_pack_compression(struct tutti_step_writer *w, const struct tutti_plan_pack *p,
                                  uint64_t all)
{
    const struct tutti_plan *plan = &w->plan;
    const bool twice = p->sent[1] > 0;
    const bool factors = plan->strategy->compression == TUTTI_COMPRESS_POWER_SGD;
    struct tutti_region *r = tutti_arena_take(plan->arena, 8, sizeof(*r));
    struct tutti_work *work = &w->work[w->work_count];

    w->work_count += TUTTI_PLAN_COMPRESSIONS;
    if (r == NULL)
        return false;
    for (int i = 0; i < TUTTI_PLAN_COMPRESSIONS; i++) {
        static const char *const names[] = {"compress", "orthogonalize", "expand"};

        work[i] = (struct tutti_work){.name = names[i], .kind = TUTTI_WORK_ELEMENTWISE};
        if (p->compressed)
            work[i].duration_ps = (tutti_ps)tutti_muldiv(
                (uint64_t)plan->params.compress_ps, p->elements * eighths[factors][i], all * 8);
    }
    if (!p->compressed)
        return true;
    r[0] = (struct tutti_region){.buf = TUTTI_BUF_SCRATCH,
                                 .offset = p->offset,
                                 .bytes = p->padded * plan->params.gradient_bytes};
    r[1] = tutti_plan_sent(plan, p, 0);
    work[0].reads = r;
    work[0].writes = r + 1;
    work[0].read_count = work[0].write_count = 1;
    r[2] = tutti_plan_result(plan, p, 0);
    r[3] = r[2];
    r[3].whole = 0;
    r[4] = tutti_plan_sent(plan, p, 1);
    work[1].reads = r + 2;
    work[1].read_count = twice;
    work[1].writes = r + 3;
    work[1].write_count = twice ? 2 : 0;
    r[5] = twice ? r[3] : r[2];
    r[6] = tutti_plan_result(plan, p, 1);
    work[2].reads = r + 5;
    work[2].read_count = twice ? 2 : 1;
    work[2].writes = r;
    work[2].write_count = 1;
    return true;
}

static bool list_compression(struct tutti_step_writer *w)
{
    uint64_t all = 0;
    bool done = true;

    for (uint32_t i = 0; i < w->plan.pack_count; i++)
        all += w->plan.packs[i].compressed ? w->plan.packs[i].elements : 0;
    for (uint32_t i = 0; i < w->plan.pack_count && done; i++)
        done = list_pack_compression(w, &w->plan.packs[i], all);
    return done;
}

/* Whole sums of gradients: what the optimiser reads, and what is reported of. */
static bool list_sums_read(const struct tutti_step_writer *w, const struct tutti_region **ret,
                           uint32_t *ret_count)
{
    const struct tutti_plan *plan = &w->plan;
    struct tutti_region *reads =
        tutti_arena_take(plan->arena, 2 * (size_t)plan->pack_count + 1, sizeof(*reads));
    uint32_t count = 0;
    bool local = plan->params.rank_count == 1 || tutti_writer_averages_weights(w);
    uint8_t whole = local                         ? 0
                    : !tutti_writer_adds_up(w)    ? 1 + TUTTI_AXIS_ALL
                    : tutti_writer_goes_across(w) ? 1 + TUTTI_AXIS_ACROSS
                                                  : 0; /* each part was */

    if (reads == NULL)
        return false;
    for (uint32_t i = 0; i < plan->pack_count; i++) {
        const struct tutti_plan_pack *p = &plan->packs[i];
        uint64_t n = tutti_writer_shares(w) && !plan->strategy->full_reduce ? plan->shard_ranks : 1;

        if (p->sparse && !local) { /* so many of each rank's, to be added up */
            reads[count++] = tutti_plan_result(plan, p, 0);
            reads[count++] = tutti_plan_result(plan, p, 1);
            continue;
        }
        reads[count++] =
            (struct tutti_region){.buf = TUTTI_BUF_SCRATCH,
                                  .whole = p->compressed ? 0 : whole,
                                  .offset = local ? p->offset : p->sum_offset,
                                  .bytes = (local && !p->sparse ? p->elements : p->padded / n) *
                                           plan->params.gradient_bytes};
    }
    *ret = reads;
    *ret_count = count;
    return true;
}

/* Each rank says what it has to say of whole sums; the optimiser reads those, and what all have
 * said, and updates what the rank owns. */
static bool list_optimizer(struct tutti_step_writer *w)
{
    const struct tutti_plan *plan = &w->plan;
    const bool reports = plan->params.report_elements > 0;
    const struct tutti_region *reads = NULL;
    uint32_t count = 0;
    struct tutti_region *own = tutti_arena_take(plan->arena, 3, sizeof(*own));
    struct tutti_work *work = &w->work[w->work_count];

    if (own == NULL || !list_sums_read(w, &reads, &count))
        return false;
    own[0] = (struct tutti_region){.buf = TUTTI_BUF_STATE, .bytes = plan->state_bytes};
    own[1] = plan->report;
    if (reports)
        *work++ = (struct tutti_work){.name = "report",
                                      .kind = TUTTI_WORK_ELEMENTWISE,
                                      .reads = reads,
                                      .read_count = count,
                                      .writes = own + 1,
                                      .write_count = 1};
    if (reports && !list_sums_read(w, &reads, &count))
        return false;
    if (reports) {
        struct tutti_region *said = (struct tutti_region *)reads + count++;

        *said = plan->report_sum;
        said->whole = plan->params.rank_count > 1 ? 1 + TUTTI_AXIS_ALL : 0;
    }
    *work++ = (struct tutti_work){.name = "optimizer",
                                  .kind = TUTTI_WORK_OPTIMIZER,
                                  .duration_ps = plan->params.optimizer_ps,
                                  .reads = reads,
                                  .read_count = count,
                                  .writes = own,
                                  .write_count = plan->state_bytes > 0};
    if (w->entries.local != UINT32_MAX) {
        *work = work[-1];
        work->name = "local-optimizer";
        work->read_count -= reports;
        work++;
    }
    if (w->entries.outer != UINT32_MAX)
        *work++ = (struct tutti_work){.name = "outer",
                                      .kind = TUTTI_WORK_OPTIMIZER,
                                      .reads = own,
                                      .read_count = 1,
                                      .writes = own,
                                      .write_count = 1};
    w->work_count = (uint32_t)(work - w->work);
    return true;
}

bool tutti_writer_list_work(struct tutti_step_writer *w)
{
    bool done = true;

    w->entries = tutti_plan_entries(&w->plan);
    w->work = tutti_arena_take(w->plan.arena, w->entries.count, sizeof(*w->work));
    if (w->work == NULL)
        return false;
    for (uint32_t i = 0; i < w->plan.layer_count && done; i++)
        done = list_layer(w, &w->plan.layers[i]);
    if (done && tutti_writer_adds_up(w))
        done = list_sums(w);
    if (done && tutti_writer_compresses(w))
        done = list_compression(w);
    w->work[w->work_count++] = (struct tutti_work){
        .name = "input", .kind = TUTTI_WORK_INPUT, .duration_ps = w->plan.params.input_ps};
    done = done && list_optimizer(w);
    assert(!done || w->work_count == w->entries.count);
    for (uint32_t i = 0; i < w->work_count; i++) {
        w->work[i].run = w->plan.params.run;
        w->work[i].context = w->plan.params.run_context;
        w->work[i].queued = w->plan.params.queued;
    }
    return done;
}
