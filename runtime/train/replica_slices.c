/* Sparse gradients of a rank: the rows that its examples touch, gathered from all ranks and added
 * up, rank after rank, into a gradient of all rows; so that an optimizer does to it what it does to
 * a dense one, as Keras has it. */
#include <inttypes.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/replica.h"

/* Slices of one rank: values [count][columns], then as many rows of 8 bytes each, which need not be
 * aligned; and how many of them there are. */
struct part {
    float *values;
    char *rows;
    char *length;
};

static struct part part_at(const struct tutti_variable_place *place, void *slices, void *length)
{
    float *values = slices;

    return (struct part){.values = values,
                         .rows = (char *)(values + place->slice_count * place->columns),
                         .length = length};
}

static struct part own_part(const struct tutti_layout *l, const struct tutti_variable_place *place,
                            const struct tutti_work_call *call)
{
    char *scratch = call->scratch;

    return part_at(place, scratch + tutti_plan_sent(&l->plan, place->pack, 1).offset,
                   scratch + tutti_plan_sent(&l->plan, place->pack, 0).offset);
}

static struct part part_of(const struct tutti_layout *l, const struct tutti_variable_place *place,
                           const struct tutti_work_call *call, uint32_t rank)
{
    const struct tutti_plan_pack *p = place->pack;
    char *scratch = call->scratch;

    if (l->alone)
        return own_part(l, place, call);
    return part_at(
        place,
        scratch + tutti_plan_result(&l->plan, p, 1).offset + rank * p->sent[1] * sizeof(float),
        scratch + tutti_plan_result(&l->plan, p, 0).offset + rank * p->sent[0] * sizeof(float));
}

static int check_row(const struct tutti_variable_place *place, int64_t row, struct tutti_err *err)
{
    if (row >= 0 && (uint64_t)row < place->rows)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "a slice of row '%" PRIi64 "' of a variable of %" PRIu64 " rows", row,
                      place->rows);
}

/* As many slices as rows: each has its place, and what touches it is added. */
static int add_to_rows(struct tutti_replica *r, const struct tutti_variable_place *place,
                       uint64_t count, bool add, const struct part *to, struct tutti_err *err)
{
    if (!add)
        memset(to->values, 0, place->rows * place->columns * sizeof(float));
    for (uint64_t i = 0; i < count; i++) {
        int status = check_row(place, r->rows[i], err);

        if (status < 0)
            return status;
        for (uint64_t k = 0; k < place->columns; k++)
            to->values[(uint64_t)r->rows[i] * place->columns + k] +=
                r->slices[i * place->columns + k];
    }
    for (uint64_t i = 0; i < place->rows; i++) {
        int64_t row = (int64_t)i;

        memcpy(to->rows + i * sizeof(row), &row, sizeof(row));
    }
    return 0;
}

int tutti_replica_take_slices(struct tutti_replica *r, uint32_t layer, uint32_t variable, bool add,
                              const struct tutti_work_call *call, struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    const struct tutti_variable_place *place = &l->places[l->first_place[layer] + variable];
    const struct part to = own_part(l, place, call);
    const bool whole = place->slice_count == place->rows;
    uint32_t before = 0;
    uint64_t room;
    uint64_t count = 0;
    uint32_t length;
    int status;

    if (add && !whole)
        memcpy(&before, to.length, sizeof(before));
    room = whole ? l->slice_most : place->slice_count - before;
    status =
        l->learner->slices(r->learning, layer, variable, room, r->rows, r->slices, &count, err);
    if (status < 0)
        return status;
    if (count > room)
        return tutti_fail(err, TUTTI_EINVAL,
                          "the learner has '%" PRIu64 "' slices of a sparse gradient (at most "
                          "%" PRIu64 ": what the samples of a step touch)",
                          count, room);
    if (whole) {
        status = add_to_rows(r, place, count, add, &to, err);
        count = place->rows;
    } else {
        memcpy(to.values + before * place->columns, r->slices,
               count * place->columns * sizeof(float));
        memcpy(to.rows + before * sizeof(int64_t), r->rows, count * sizeof(int64_t));
    }
    length = before + (uint32_t)count;
    memcpy(to.length, &length, sizeof(length));
    return status;
}

static int sum_part(const struct tutti_variable_place *place, const struct part *part, float *to,
                    struct tutti_err *err)
{
    uint32_t length;

    memcpy(&length, part->length, sizeof(length));
    for (uint32_t i = 0; i < length && i < place->slice_count; i++) {
        int64_t row;
        int status;

        memcpy(&row, part->rows + i * sizeof(row), sizeof(row));
        status = check_row(place, row, err);
        if (status < 0)
            return status;
        for (uint64_t k = 0; k < place->columns; k++)
            to[(uint64_t)row * place->columns + k] += part->values[i * place->columns + k];
    }
    return 0;
}

int tutti_replica_sum_slices(struct tutti_replica *r, const struct tutti_work_call *call,
                             struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    const uint32_t count = l->first_place[l->plan.layer_count];
    int status = 0;

    for (uint32_t i = 0; i < count && status == 0; i++) {
        const struct tutti_variable_place *place = &l->places[i];
        float *table;

        if (place->slice_count == 0)
            continue;
        table = r->tables + place->pack->first_weight;
        memset(table, 0, place->elements * sizeof(float));
        for (uint32_t rank = 0; rank < l->params.rank_count && status == 0; rank++) {
            const struct part part = part_of(l, place, call, rank);

            status = sum_part(place, &part, table, err);
        }
    }
    return status;
}
