/* A stored copy of any schedule, callees too: what mutation tests and editors work on. */
#include "runtime/schedule.h"
#include "runtime/status.h"

static struct tutti_schedule_desc desc_of(const struct tutti_schedule *s)
{
    bool custom = s->contract.collective == TUTTI_CUSTOM;

    return (struct tutti_schedule_desc){
        .name = s->name,
        .contract = s->contract,
        .rank_count = s->rank_count,
        .lane_count = s->lane_count,
        .slot_count = s->slot_count,
        .in_bytes = custom ? s->in_bytes : 0,
        .out_bytes = custom ? s->out_bytes : 0,
        .scratch_bytes = s->scratch_bytes,
        .chunk_count = s->chunk_count,
        .state_bytes = s->state_bytes,
        .axes = s->axes,
        .axis_count = s->axis_count,
        .work_count = s->work_count,
        .work = s->work,
        .atomics = s->atomics,
        .atomic_count = s->atomic_count,
    };
}

static bool differ(const struct tutti_schedule *s, const struct tutti_buf_sizes *sizes)
{
    return sizes->in_bytes != s->in_bytes || sizes->out_bytes != s->out_bytes ||
           sizes->scratch_bytes != s->scratch_bytes || sizes->state_bytes != s->state_bytes;
}

/* The steps of all ranks, and the sizes of those that have less than the rest. */
static int copy_steps(const struct tutti_schedule *s, struct tutti_builder *builder,
                      struct tutti_err *err)
{
    int status = 0;

    for (uint32_t rank = 0; rank < s->rank_count && status == 0 && s->ops->sizes != NULL; rank++) {
        struct tutti_buf_sizes sizes;

        tutti_schedule_buf_sizes(s, rank, &sizes);
        if (differ(s, &sizes))
            status = tutti_builder_set_sizes(builder, rank, &sizes, err);
    }
    for (uint32_t rank = 0; rank < s->rank_count && status == 0; rank++) {
        for (uint32_t lane = 0; lane < s->lane_count && status == 0; lane++) {
            const struct tutti_step *step;
            struct tutti_cursor cursor;

            tutti_cursor_open(&cursor, s, rank, lane);
            while (status == 0 && (step = tutti_cursor_next(&cursor)) != NULL)
                status = tutti_builder_add(builder, rank, lane, step, err);
        }
    }
    return status;
}

/* A builder with the steps of `s` and no callees yet. */
static int store_one(const struct tutti_schedule *s, struct tutti_builder **ret,
                     struct tutti_err *err)
{
    struct tutti_schedule_desc desc = desc_of(s);
    struct tutti_builder *builder = NULL;
    int status = tutti_builder_new(&desc, &builder, err);

    if (status == 0)
        status = copy_steps(s, builder, err);
    if (status < 0) {
        tutti_builder_free(builder);
        return status;
    }
    *ret = builder;
    return 0;
}

static int store_callee(const struct tutti_schedule *callee, struct tutti_builder *into,
                        struct tutti_err *err)
{
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *copy = NULL;
    uint32_t index = 0;
    int status = store_one(callee, &builder, err);

    if (status == 0)
        status = tutti_builder_finish(builder, &copy, err);
    if (status == 0)
        status = tutti_builder_add_callee(into, copy, &index, err);
    if (status < 0)
        tutti_schedule_free(copy);
    return status;
}

int tutti_schedule_store(const struct tutti_schedule *schedule, struct tutti_builder **ret,
                         struct tutti_err *err)
{
    struct tutti_builder *builder = NULL;
    int status = store_one(schedule, &builder, err);

    for (uint32_t i = 0; i < schedule->callee_count && status == 0; i++)
        status = store_callee(schedule->callees[i], builder, err);
    if (status < 0) {
        tutti_builder_free(builder);
        return status;
    }
    *ret = builder;
    return 0;
}
