/* Walks programs once before they are played: what would crash a player is refused by name, steps
 * are counted, and small programs are stored. */
#include "runtime/exec/program.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

struct walk {
    const struct tutti_schedule *schedule;
    struct tutti_program *program;
    size_t store_bytes;
    size_t capacity; /* of program->stored, in steps */
    uint64_t *seen;  /* [ranks of the schedule]: the last lane walk that sent to this peer */
    uint64_t serial; /* of the current lane walk, from 1 */
};

static bool fits(const struct tutti_buf_sizes *sizes, unsigned buf, uint64_t offset, uint64_t bytes)
{
    uint64_t room = tutti_buf_size_of(sizes, (enum tutti_buf)buf);

    return buf < TUTTI_BUF_COUNT && (bytes == 0 || (bytes <= room && offset <= room - bytes));
}

/* NULL, or what is wrong with the work of a COMPUTE. */
static const char *work_fault_of(const struct tutti_schedule *schedule,
                                 const struct tutti_buf_sizes *sizes, const struct tutti_step *step)
{
    const struct tutti_work *work;

    if (step->peer > schedule->work_count)
        return "names work that is not there";
    work = step->peer == 0 ? NULL : &schedule->work[step->peer - 1];
    for (uint32_t i = 0; work != NULL && i < work->read_count + work->write_count; i++) {
        bool writes = i >= work->read_count;
        struct tutti_region at =
            tutti_region_at(writes ? &work->writes[i - work->read_count] : &work->reads[i], step);

        if (writes && at.buf == TUTTI_BUF_IN)
            return "writes the input";
        if (!fits(sizes, at.buf, at.offset, at.bytes))
            return "addresses bytes outside its buffer";
    }
    return NULL;
}

/* NULL, or what is wrong with the step. */
static const char *fault_of(const struct tutti_schedule *schedule,
                            const struct tutti_buf_sizes *sizes, const struct tutti_step *step)
{
    bool reads = step->kind == TUTTI_SEND || step->kind == TUTTI_REDUCE || step->kind == TUTTI_COPY;
    bool writes =
        step->kind == TUTTI_RECV || step->kind == TUTTI_REDUCE || step->kind == TUTTI_COPY;
    size_t element_bytes;

    if (step->kind < TUTTI_SEND || step->kind > TUTTI_CALL)
        return "is of no known kind";
    if (step->kind == TUTTI_CALL)
        return "is a call, and only flat schedules are played";
    if (step->kind == TUTTI_COMPUTE)
        return work_fault_of(schedule, sizes, step);
    if (step->reduction > TUTTI_DTYPE_COUNT * TUTTI_OP_COUNT)
        return "reduces by an unknown type or operator";
    if ((step->kind == TUTTI_SEND || step->kind == TUTTI_RECV) &&
        step->peer >= schedule->rank_count)
        return "names a peer that is not there";
    if ((step->flags & TUTTI_STEP_DEP) != 0 && step->dep_lane >= schedule->lane_count)
        return "depends on a lane that is not there";
    if (writes && step->dst_buf == TUTTI_BUF_IN && step->bytes > 0)
        return "writes the input";
    if ((reads && !fits(sizes, step->src_buf, step->src_offset, step->bytes)) ||
        (writes && !fits(sizes, step->dst_buf, step->dst_offset, step->bytes)) ||
        (step->kind == TUTTI_REDUCE && !fits(sizes, step->acc_buf, step->acc_offset, step->bytes)))
        return "addresses bytes outside its buffer";
    if (step->kind != TUTTI_REDUCE || step->bytes == 0)
        return NULL;
    element_bytes = tutti_dtype_bytes(tutti_step_reduction(schedule, step).dtype);
    if (step->bytes % element_bytes != 0)
        return "reduces a fraction of an element";
    if (step->dst_offset % element_bytes != 0 || step->acc_offset % element_bytes != 0 ||
        step->src_offset % element_bytes != 0)
        return "reduces at an offset inside an element";
    return NULL;
}

static int store(struct walk *walk, const struct tutti_step *step, struct tutti_err *err)
{
    struct tutti_program *program = walk->program;
    struct tutti_step *larger;

    if (walk->store_bytes == 0)
        return 0;
    if ((program->step_count + 1) * sizeof(*step) > walk->store_bytes) { /* too large: give up */
        free(program->stored);
        program->stored = NULL;
        walk->store_bytes = 0;
        return 0;
    }
    if (program->step_count == walk->capacity) {
        walk->capacity = walk->capacity == 0 ? 64 : 2 * walk->capacity;
        larger = realloc(program->stored, walk->capacity * sizeof(*larger));
        if (larger == NULL)
            return tutti_nomem(err);
        program->stored = larger;
    }
    program->stored[program->step_count] = *step;
    return 0;
}

static int walk_lane(struct walk *walk, uint32_t rank, uint32_t lane,
                     struct tutti_program_lane *out, struct tutti_err *err)
{
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    uint64_t send_count = 0;
    uint64_t peer_count = 0;
    struct tutti_buf_sizes sizes;

    tutti_schedule_buf_sizes(walk->schedule, rank, &sizes);
    walk->serial++;
    tutti_cursor_open(&cursor, walk->schedule, rank, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        const char *fault = fault_of(walk->schedule, &sizes, step);
        char text[TUTTI_STEP_TEXT_BYTES];
        int status;

        if (fault != NULL)
            return tutti_fail(err, TUTTI_ECHECK, "rank %u, lane %u, step %llu (%s) %s", rank, lane,
                              (unsigned long long)out->step_count, tutti_step_text(step, text),
                              fault);
        status = store(walk, step, err);
        if (status < 0)
            return status;
        if (step->kind == TUTTI_SEND) {
            send_count++;
            peer_count += walk->seen[step->peer] != walk->serial;
            walk->seen[step->peer] = walk->serial;
        }
        out->step_count++;
        walk->program->step_count++;
    }
    /* Each connection holds slot_count messages; one more SEND of the lane may wait for a slot. */
    out->sends_max = peer_count * walk->schedule->slot_count + 1;
    if (out->sends_max > send_count)
        out->sends_max = send_count;
    walk->program->sends_max += out->sends_max;
    return 0;
}

/* Only now does the stored array stay where it is. */
static void point_lanes(struct tutti_program *program, size_t lane_total)
{
    const struct tutti_step *at = program->stored;

    for (size_t i = 0; i < lane_total && at != NULL; i++) {
        program->lanes[i].steps = at;
        at += program->lanes[i].step_count;
    }
}

int tutti_program_open(struct tutti_program *program, const struct tutti_schedule *schedule,
                       uint32_t first_rank, uint32_t rank_count, size_t store_bytes,
                       struct tutti_err *err)
{
    struct tutti_program made = {0};
    struct walk walk = {.schedule = schedule, .program = &made, .store_bytes = store_bytes};
    size_t lane_total = (size_t)rank_count * schedule->lane_count;
    int status = 0;

    made.lanes = calloc(lane_total + 1, sizeof(made.lanes[0]));
    walk.seen = calloc((size_t)schedule->rank_count + 1, sizeof(walk.seen[0]));
    if (made.lanes == NULL || walk.seen == NULL)
        status = tutti_nomem(err);
    for (size_t i = 0; i < lane_total && status == 0; i++)
        status = walk_lane(&walk, first_rank + (uint32_t)(i / schedule->lane_count),
                           (uint32_t)(i % schedule->lane_count), &made.lanes[i], err);
    free(walk.seen);
    if (status < 0) {
        tutti_program_close(&made);
        return status;
    }
    point_lanes(&made, lane_total);
    *program = made;
    return 0;
}

void tutti_program_close(struct tutti_program *program)
{
    free(program->lanes);
    free(program->stored);
    *program = (struct tutti_program){0};
}
