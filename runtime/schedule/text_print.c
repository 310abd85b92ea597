/* Our own text form of a schedule: writing it. The grammar stands in text.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/schedule/step.h"
#include "runtime/schedule/text.h"
#include "runtime/status.h"

struct text {
    char *bytes;
    size_t used;
    size_t capacity;
};

/* Appends, and a zero behind it that is not counted. */
static int append(struct text *text, const char *piece, struct tutti_err *err)
{
    size_t bytes = strlen(piece);
    size_t capacity = text->capacity == 0 ? 4096 : text->capacity * 2;

    if (bytes > TUTTI_TEXT_BYTES_MAX - text->used)
        return tutti_fail(err, TUTTI_EINVAL, "a text of more than '%d' bytes",
                          TUTTI_TEXT_BYTES_MAX);
    if (text->capacity - text->used <= bytes) {
        char *grown;

        while (capacity - text->used <= bytes)
            capacity *= 2;
        grown = realloc(text->bytes, capacity);
        if (grown == NULL)
            return tutti_nomem(err);
        text->bytes = grown;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->used, piece, bytes + 1);
    text->used += bytes;
    return 0;
}

/* What the text cannot say. */
static int check_step(const struct tutti_step *step, struct tutti_err *err)
{
    if (step->kind < TUTTI_SEND || step->kind > TUTTI_CALL)
        return tutti_fail(err, TUTTI_EINVAL, "unknown kind '%u' (%d to %d)", step->kind, TUTTI_SEND,
                          TUTTI_CALL);
    if (step->dst_buf >= TUTTI_BUF_COUNT || step->src_buf >= TUTTI_BUF_COUNT ||
        step->acc_buf >= TUTTI_BUF_COUNT)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a step with an unknown buffer (in, out, scratch or state)");
    if (step->kind != TUTTI_CALL && step->reduction > TUTTI_DTYPE_COUNT * TUTTI_OP_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "a step of an unknown type or operator '%u'",
                          step->reduction);
    if (step->kind == TUTTI_COMPUTE && step->duration_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL, "a step that takes less than no time (0 or more)");
    if ((step->flags & TUTTI_STEP_DEP) != 0 && step->dep_lane >= TUTTI_LANES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a step that depends on lane '%u' (0 to %d)",
                          step->dep_lane, TUTTI_LANES_MAX - 1);
    return 0;
}

/* The step as it is read: in chunks, where the schedule is. */
static const char *step_words(const struct tutti_step *step, uint64_t chunk_bytes, char *buf)
{
    struct tutti_step in_chunks = *step;

    if (chunk_bytes == 0 || step->kind == TUTTI_COMPUTE)
        return tutti_step_text(step, buf);
    in_chunks.bytes /= chunk_bytes;
    in_chunks.dst_offset /= chunk_bytes;
    in_chunks.src_offset /= chunk_bytes;
    in_chunks.acc_offset /= chunk_bytes;
    return tutti_step_text_in(&in_chunks, "C", buf);
}

static int print_lane(const struct tutti_schedule *s, uint32_t rank, uint32_t lane,
                      struct text *text, struct tutti_err *err)
{
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    char words[TUTTI_STEP_TEXT_BYTES];
    char line[TUTTI_STEP_TEXT_BYTES + 8];
    int status = 0;

    tutti_cursor_open(&cursor, s, rank, lane);
    while (status == 0 && (step = tutti_cursor_next(&cursor)) != NULL) {
        if (cursor.step_index == 1) {
            (void)snprintf(line, sizeof(line), "\nrank %u lane %u\n", rank, lane);
            status = append(text, line, err);
        }
        if (status == 0)
            status = check_step(step, err);
        if (status < 0)
            return tutti_wrap(err, status, "rank %u, lane %u, step %" PRIu64, rank, lane,
                              cursor.step_index - 1);
        (void)snprintf(line, sizeof(line), "  %s\n",
                       step_words(step, tutti_schedule_chunk_bytes(s), words));
        status = append(text, line, err);
    }
    return status;
}

/* "  reads state+0 64 B whole 1" */
static int print_regions(const char *verb, const struct tutti_region *regions, uint32_t count,
                         struct text *text, struct tutti_err *err)
{
    char whole[32];
    char line[128];
    int status = 0;

    for (uint32_t i = 0; i < count && status == 0; i++) {
        whole[0] = '\0';
        if (regions[i].whole > 0)
            (void)snprintf(whole, sizeof(whole), " whole %u", regions[i].whole - 1u);
        (void)snprintf(line, sizeof(line), "%s %s+%" PRIu64 " %" PRIu64 " B%s\n", verb,
                       tutti_buf_name(regions[i].buf), regions[i].offset, regions[i].bytes, whole);
        status = append(text, line, err);
    }
    return status;
}

static int print_work(const struct tutti_work *work, struct text *text, struct tutti_err *err)
{
    char time[TUTTI_UNIT_TEXT_BYTES];
    char line[128];
    int status = append(text, "work ", err);

    if (status == 0)
        status = append(text, work->name, err);
    (void)snprintf(line, sizeof(line), " %s", tutti_work_kind_name(work->kind));
    if (status == 0)
        status = append(text, line, err);
    line[0] = '\0';
    if (work->duration_ps > 0)
        (void)snprintf(line, sizeof(line), " %s", tutti_print_time(work->duration_ps, time));
    if (status == 0)
        status = append(text, line, err);
    line[0] = '\0';
    if (work->flops > 0)
        (void)snprintf(line, sizeof(line), " %" PRIu64 " flops", work->flops);
    if (status == 0)
        status = append(text, line, err);
    (void)snprintf(line, sizeof(line), work->moved_bytes > 0 ? " %" PRIu64 " moved\n" : "\n",
                   work->moved_bytes);
    if (status == 0)
        status = append(text, line, err);
    if (status == 0)
        status = print_regions("  reads", work->reads, work->read_count, text, err);
    if (status == 0)
        status = print_regions("  writes", work->writes, work->write_count, text, err);
    return status;
}

static int print_tables(const struct tutti_schedule *s, struct text *text, struct tutti_err *err)
{
    char line[160];
    int status = 0;

    for (uint32_t i = 0; i < s->axis_count && status == 0; i++) {
        const struct tutti_axis *a = &s->axes[i];

        status = append(text, "axis ", err);
        if (status == 0)
            status = append(text, a->name, err);
        (void)snprintf(line, sizeof(line),
                       " first %u width %u stride %u size %u period %u repeat %u\n", a->first,
                       a->width, a->stride, a->size, a->period, a->repeat);
        if (status == 0)
            status = append(text, line, err);
    }
    for (uint32_t i = 0; i < s->work_count && status == 0; i++)
        status = print_work(&s->work[i], text, err);
    if (status == 0)
        status = print_regions("atomic", s->atomics, s->atomic_count, text, err);
    return status;
}

/* The ranks whose buffers are smaller than the head says. */
static int print_sizes(const struct tutti_schedule *s, struct text *text, struct tutti_err *err)
{
    char line[200];
    int status = 0;

    for (uint32_t rank = 0; rank < s->rank_count && s->ops->sizes != NULL && status == 0; rank++) {
        struct tutti_buf_sizes own;

        tutti_schedule_buf_sizes(s, rank, &own);
        if (own.in_bytes == s->in_bytes && own.out_bytes == s->out_bytes &&
            own.scratch_bytes == s->scratch_bytes && own.state_bytes == s->state_bytes)
            continue;
        (void)snprintf(line, sizeof(line),
                       "sizes %u in %" PRIu64 " out %" PRIu64 " scratch %" PRIu64 " state %" PRIu64
                       "\n",
                       rank, own.in_bytes, own.out_bytes, own.scratch_bytes, own.state_bytes);
        status = append(text, line, err);
    }
    return status;
}

/* `ranks`: those of the caller, or 0. */
static int print_head(const struct tutti_schedule *s, uint32_t ranks, struct text *text,
                      struct tutti_err *err)
{
    const struct tutti_contract *c = &s->contract;
    char root[32] = "";
    char own_ranks[32] = "";
    char sizes[80] = "";
    char state[48] = "";
    char chunks[32] = "";
    char line[512];
    const char *unit = s->chunk_count > 0 ? "C" : "B";
    uint64_t unit_bytes = s->chunk_count > 0 ? tutti_schedule_chunk_bytes(s) : 1;
    int status = append(text, ranks > 0 ? "\ncallee " : "schedule ", err);

    if (status == 0)
        status = append(text, s->name, err);
    if (c->root > 0)
        (void)snprintf(root, sizeof(root), " root %u", c->root);
    if (ranks != s->rank_count)
        (void)snprintf(own_ranks, sizeof(own_ranks), "ranks %u\n", s->rank_count);
    if (c->collective == TUTTI_CUSTOM)
        (void)snprintf(sizes, sizeof(sizes), "in %" PRIu64 " %s\nout %" PRIu64 " %s\n",
                       s->in_bytes / unit_bytes, unit, s->out_bytes / unit_bytes, unit);
    if (s->chunk_count > 0)
        (void)snprintf(chunks, sizeof(chunks), "chunks %" PRIu64 "\n", s->chunk_count);
    if (s->state_bytes > 0)
        (void)snprintf(state, sizeof(state), "state %" PRIu64 " B\n", s->state_bytes);
    (void)snprintf(line, sizeof(line),
                   "\ncontract %s %s %s count %" PRIu64 "%s\n%s%slanes %u\nslots %u\n"
                   "scratch %" PRIu64 " %s\n%s%s",
                   tutti_collective_name(c->collective), tutti_dtype_name(c->dtype),
                   tutti_op_name(c->op), c->count, root, chunks, own_ranks, s->lane_count,
                   s->slot_count, s->scratch_bytes / unit_bytes, unit, state, sizes);
    if (status == 0)
        status = append(text, line, err);
    if (status == 0)
        status = print_tables(s, text, err);
    return status < 0 ? status : print_sizes(s, text, err);
}

static int print_one(const struct tutti_schedule *s, uint32_t ranks, struct text *text,
                     struct tutti_err *err)
{
    int status = print_head(s, ranks, text, err);

    for (uint32_t rank = 0; rank < s->rank_count && status == 0; rank++)
        for (uint32_t lane = 0; lane < s->lane_count && status == 0; lane++)
            status = print_lane(s, rank, lane, text, err);
    return status;
}

int tutti_schedule_print(const struct tutti_schedule *schedule, char **ret, struct tutti_err *err)
{
    struct text text = {NULL, 0, 0};
    int status = print_one(schedule, 0, &text, err);

    for (uint32_t i = 0; i < schedule->callee_count && status == 0; i++)
        status = print_one(schedule->callees[i], schedule->rank_count, &text, err);
    if (status < 0) {
        free(text.bytes);
        return tutti_wrap(err, status, "cannot print schedule '%.40s'", schedule->name);
    }
    *ret = text.bytes;
    return 0;
}
