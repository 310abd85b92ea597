/* Mutants: every step of a schedule removed, doubled or redirected, one at a time. Each mutant must
 * be refused by check or prove with a message that names a rank and a step. */
#ifndef TUTTI_TESTS_RUNTIME_MUTATE_H
#define TUTTI_TESTS_RUNTIME_MUTATE_H

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/test.h"

enum mutation { MUTATION_REMOVE, MUTATION_DOUBLE, MUTATION_REDIRECT, MUTATION_COUNT };

struct mutant {
    const struct tutti_schedule *schedule;
    enum mutation mutation;
    uint32_t rank; /* whose step `index` of `lane` is changed */
    uint32_t lane;
    uint64_t index;
};

/* To another peer; where there is no third rank, to itself; data steps go elsewhere in dst. */
static inline void mutate_redirect(const struct mutant *m, struct tutti_step *step)
{
    uint32_t n = m->schedule->rank_count;

    if (step->kind != TUTTI_SEND && step->kind != TUTTI_RECV) {
        step->dst_offset += step->dst_offset >= step->bytes ? -step->bytes : step->bytes;
        return;
    }
    step->peer = (step->peer + 1) % n;
    if (n > 2 && step->peer == m->rank)
        step->peer = (step->peer + 1) % n;
}

/* Dependencies go on naming the steps they named. */
static inline void mutate_dependency(const struct mutant *m, uint32_t rank, struct tutti_step *step)
{
    if ((step->flags & TUTTI_STEP_DEP) == 0 || rank != m->rank || step->dep_lane != m->lane)
        return;
    if (m->mutation == MUTATION_REMOVE && step->dep_step == m->index)
        step->flags &= (uint8_t)~TUTTI_STEP_DEP;
    else if (m->mutation == MUTATION_REMOVE && step->dep_step > m->index)
        step->dep_step--;
    else if (m->mutation == MUTATION_DOUBLE && step->dep_step > m->index)
        step->dep_step++;
}

static inline int mutate_lane(const struct mutant *m, uint32_t rank, uint32_t lane,
                              struct tutti_builder *builder, struct tutti_err *err)
{
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    int status = 0;

    tutti_cursor_open(&cursor, m->schedule, rank, lane);
    while (status == 0 && (step = tutti_cursor_next(&cursor)) != NULL) {
        bool chosen = rank == m->rank && lane == m->lane && cursor.step_index == m->index + 1;
        struct tutti_step copy = *step;

        mutate_dependency(m, rank, &copy);
        if (chosen && m->mutation == MUTATION_REMOVE)
            continue;
        if (chosen && m->mutation == MUTATION_REDIRECT)
            mutate_redirect(m, &copy);
        status = tutti_builder_add(builder, rank, lane, &copy, err);
        if (status == 0 && chosen && m->mutation == MUTATION_DOUBLE)
            status = tutti_builder_add(builder, rank, lane, &copy, err);
    }
    return status;
}

static inline int mutate(const struct mutant *m, struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_schedule *s = m->schedule;
    struct tutti_schedule_desc desc = {.name = s->name,
                                       .contract = s->contract,
                                       .rank_count = s->rank_count,
                                       .lane_count = s->lane_count,
                                       .slot_count = s->slot_count,
                                       .scratch_bytes = s->scratch_bytes};
    struct tutti_builder *builder = NULL;
    int status = tutti_builder_new(&desc, &builder, err);

    for (uint32_t rank = 0; rank < s->rank_count && status == 0; rank++)
        for (uint32_t lane = 0; lane < s->lane_count && status == 0; lane++)
            status = mutate_lane(m, rank, lane, builder, err);
    if (status == 0)
        return tutti_builder_finish(builder, ret, err);
    tutti_builder_free(builder);
    return status;
}

/* One mutant must be refused, by name. */
static inline void mutate_and_refuse(const struct mutant *m, const struct tutti_step *step)
{
    static const char *const words[] = {"removed", "doubled", "redirected"};
    char text[TUTTI_STEP_TEXT_BYTES];
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    int status;

    CHECK_OK(mutate(m, &schedule, &err), err);
    if (schedule == NULL)
        return;
    status = tutti_schedule_check(schedule, &err);
    if (status == 0)
        status = tutti_schedule_prove(schedule, &err);
    if (status != -TUTTI_ECHECK || strstr(err.text, "rank ") == NULL ||
        strstr(err.text, "step") == NULL)
        TEST_FAIL("'%s' of %u ranks, rank %u, lane %u, step %" PRIu64 " (%s) %s: %s",
                  m->schedule->name, m->schedule->rank_count, m->rank, m->lane, m->index,
                  tutti_step_text(step, text), words[m->mutation],
                  status == 0 ? "nobody objects" : err.text);
    tutti_schedule_free(schedule);
}

/* A message counts even if it is empty; a join of 0 bytes may say what is known anyway. */
static inline bool mutate_matters(const struct tutti_step *step)
{
    if (step->kind == TUTTI_SEND || step->kind == TUTTI_RECV)
        return true;
    return step->kind != TUTTI_COMPUTE && step->bytes > 0;
}

/* All mutants of all messages and of all steps that move bytes; returns how many there were. */
static inline uint64_t mutate_all(const struct tutti_schedule *s)
{
    uint64_t count = 0;

    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        for (uint32_t lane = 0; lane < s->lane_count; lane++) {
            const struct tutti_step *step;
            struct tutti_cursor cursor;

            tutti_cursor_open(&cursor, s, rank, lane);
            while ((step = tutti_cursor_next(&cursor)) != NULL) {
                if (!mutate_matters(step))
                    continue;
                for (unsigned i = 0; i < MUTATION_COUNT; i++, count++) {
                    struct mutant m = {s, (enum mutation)i, rank, lane, cursor.step_index - 1};

                    mutate_and_refuse(&m, step);
                }
            }
        }
    }
    return count;
}

#endif
