/* Parts of a network: which stages and variables they have. */
#include "runtime/train/net_part.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/train/stage.h"

/* How each stage of the whole is divided: dense ones in pairs. */
static int find_splits(const struct tutti_network *whole, uint32_t size,
                       enum tutti_dense_split *ret, struct tutti_err *err)
{
    uint32_t first = UINT32_MAX; /* of a pair, whose second is to come */
    uint32_t pairs = 0;

    for (uint32_t i = 0; i < whole->stage_count && size > 1; i++) {
        const struct tutti_train_stage *s = &whole->stages[i];
        const char *layer = whole->layers[s->layer].name;

        if (s->kind == TUTTI_TRAIN_CONVOLUTION || s->kind == TUTTI_TRAIN_EMBEDDING)
            return tutti_fail(
                err, TUTTI_EINVAL,
                "layer '%s' is %s, which '%u' tensor ranks do not divide (dense "
                "layers; or 1)",
                layer, s->kind == TUTTI_TRAIN_CONVOLUTION ? "a convolution" : "an embedding", size);
        if (s->kind != TUTTI_TRAIN_DENSE)
            continue;
        if (first == UINT32_MAX) {
            first = i;
            continue;
        }
        if (whole->stages[first].outputs % size != 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "layer '%s' has '%zu' outputs, which '%u' tensor ranks do not divide",
                              whole->layers[whole->stages[first].layer].name,
                              whole->stages[first].outputs, size);
        ret[first] = TUTTI_TRAIN_COLUMNS;
        ret[i] = TUTTI_TRAIN_ROWS;
        first = UINT32_MAX;
        pairs++;
    }
    if (size > 1 && pairs == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no two dense layers follow each other, and '%u' tensor ranks divide "
                          "nothing (1)",
                          size);
    return 0;
}

/* ---- variables ------------------------------------------------------------------------------- */

struct maker {
    const struct tutti_network *whole;
    const struct tutti_network_cut *cut;
    const enum tutti_dense_split *splits;
    struct tutti_network *part;
    uint64_t flat; /* of the layer in hand, in the whole network, */
    uint64_t at;   /* and in the part */
    uint32_t run_room;
};

static void add_run(struct maker *m, uint64_t flat, uint64_t at, uint64_t count, bool is_alike)
{
    assert(m->part->run_count < m->run_room);
    m->part->runs[m->part->run_count++] =
        (struct tutti_network_run){flat, at, count, is_alike && m->cut->size > 1};
}

/* Of a stage's weights and bias: the part's own. */
static void take_variables(struct maker *m, const struct tutti_train_stage *of,
                           struct tutti_train_stage *s)
{
    const uint64_t weights = m->flat + of->weight_at;
    const uint64_t bias = m->flat + of->bias_at;
    const size_t rows = s->kind == TUTTI_TRAIN_EMBEDDING ? s->table_rows : s->depth;
    const uint64_t before = (uint64_t)m->cut->member * s->outputs;

    s->weight_at = m->at;
    if (s->split == TUTTI_TRAIN_COLUMNS)
        for (size_t row = 0; row < rows; row++)
            add_run(m, weights + row * of->outputs + before, m->at + row * s->outputs, s->outputs,
                    false);
    else if (s->split == TUTTI_TRAIN_ROWS)
        add_run(m, weights + (uint64_t)m->cut->member * rows * s->outputs, m->at,
                (uint64_t)rows * s->outputs, false);
    else
        add_run(m, weights, m->at, (uint64_t)rows * s->outputs, true);
    m->at += (uint64_t)rows * s->outputs;
    if (s->bias == TUTTI_TRAIN_NO_VARIABLE)
        return;
    s->bias_at = m->at;
    add_run(m, s->split == TUTTI_TRAIN_COLUMNS ? bias + before : bias, m->at, s->outputs,
            s->split != TUTTI_TRAIN_COLUMNS);
    m->at += s->outputs;
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* Whether the elements behind stage `index` are divided: between the layers of a pair. */
static bool is_between(const struct maker *m, uint32_t index)
{
    for (uint32_t i = index + 1; i-- > 0;)
        if (m->whole->stages[i].kind != TUTTI_TRAIN_DROPOUT)
            return m->splits[i] == TUTTI_TRAIN_COLUMNS;
    return false;
}

static void take_stage(struct maker *m, uint32_t index)
{
    const struct tutti_train_stage *of = &m->whole->stages[index];
    struct tutti_train_stage *s = &m->part->stages[m->part->stage_count++];
    const size_t size = m->cut->size;

    *s = *of;
    s->layer = of->layer - m->cut->first_layer;
    s->split = m->splits[index];
    if (s->split == TUTTI_TRAIN_COLUMNS) {
        s->outputs /= size;
        s->out_elements /= size;
    } else if (s->split == TUTTI_TRAIN_ROWS) {
        s->depth /= size;
        s->in_elements /= size;
    } else if (s->kind == TUTTI_TRAIN_DROPOUT && is_between(m, index)) {
        s->in_elements /= size;
        s->out_elements /= size;
        s->first = m->cut->member * s->out_elements;
    }
    if (s->kind != TUTTI_TRAIN_DROPOUT)
        take_variables(m, of, s);
}

static uint32_t runs_at_most(const struct maker *m, uint32_t first, uint32_t end)
{
    uint32_t count = 0;

    for (uint32_t i = first; i < end; i++)
        count += m->splits[i] == TUTTI_TRAIN_COLUMNS ? (uint32_t)m->whole->stages[i].depth + 1 : 2;
    return count;
}

static int take_layers(struct maker *m, struct tutti_err *err)
{
    const struct tutti_network *whole = m->whole;
    struct tutti_network *part = m->part;
    const uint32_t first = whole->first_stage[m->cut->first_layer];
    const uint32_t end = whole->first_stage[m->cut->first_layer + m->cut->layer_count];
    uint64_t flat = 0;

    m->run_room = runs_at_most(m, first, end);
    part->layer_count = m->cut->layer_count;
    part->stages = tutti_arena_take(part->arena, end - first + 1, sizeof(part->stages[0]));
    part->runs = tutti_arena_take(part->arena, m->run_room + 1u, sizeof(part->runs[0]));
    if (part->stages == NULL || part->runs == NULL)
        return tutti_nomem(err);
    for (uint32_t layer = 0; layer < m->cut->first_layer + m->cut->layer_count; layer++) {
        m->flat = flat;
        flat += whole->layers[layer].elements;
        for (uint32_t i = whole->first_stage[layer];
             i < whole->first_stage[layer + 1] && layer >= m->cut->first_layer; i++)
            take_stage(m, i);
    }
    part->is_behind = first > 0;
    part->is_before = end < whole->stage_count;
    if (part->stage_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "layer '%s' computes nothing by itself (other stages)",
                          whole->layers[m->cut->first_layer].name);
    return 0;
}

int tutti_network_part(const struct tutti_network *whole, const struct tutti_network_cut *cut,
                       struct tutti_network **ret, struct tutti_err *err)
{
    struct tutti_arena *arena = tutti_arena_new();
    struct tutti_network *part = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*part));
    enum tutti_dense_split *splits = calloc((size_t)whole->stage_count + 1, sizeof(splits[0]));
    struct maker m = {.whole = whole, .cut = cut, .splits = splits, .part = part};
    int status = part == NULL || splits == NULL ? tutti_nomem(err) : 0;

    assert(cut->layer_count > 0 && cut->first_layer + cut->layer_count <= whole->layer_count);
    assert(cut->member < cut->size);
    if (status == 0)
        status = find_splits(whole, cut->size, splits, err);
    if (status == 0) {
        part->arena = arena;
        part->input = whole->input;
        part->dtype = whole->dtype;
        part->dropout = whole->dropout;
        part->products = whole->products;
        status = take_layers(&m, err);
    }
    free(splits);
    if (status < 0)
        tutti_arena_free(arena);
    else
        *ret = part;
    return status;
}

const struct tutti_network_run *tutti_network_runs(const struct tutti_network *part,
                                                   uint32_t *ret_count)
{
    *ret_count = part->run_count;
    return part->runs;
}

uint64_t tutti_network_part_in(const struct tutti_network *part)
{
    return part->stages[0].in_elements;
}

uint64_t tutti_network_part_out(const struct tutti_network *part)
{
    return part->stages[part->stage_count - 1].out_elements;
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* Whether what a stage leaves, or the gradient of what it reads, is to be added up. */
static bool is_added(const struct tutti_network *part, uint32_t stage, bool backward)
{
    const struct tutti_train_stage *s = &part->stages[stage];

    return backward ? s->split == TUTTI_TRAIN_COLUMNS && (stage > 0 || part->is_behind)
                    : s->split == TUTTI_TRAIN_ROWS;
}

uint32_t tutti_network_part_pieces(const struct tutti_network *part, bool backward)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < part->stage_count; i++)
        count += is_added(part, i, backward);
    return count;
}

/* The stage behind which piece `piece` ends, UINT32_MAX for the last. */
static uint32_t stage_of(const struct tutti_network *part, bool backward, uint32_t piece)
{
    for (uint32_t k = 0; k < part->stage_count; k++) {
        const uint32_t i = backward ? part->stage_count - 1 - k : k;

        if (is_added(part, i, backward) && piece-- == 0)
            return i;
    }
    return UINT32_MAX;
}

uint64_t tutti_network_part_added(const struct tutti_network *part, bool backward, uint32_t piece)
{
    const uint32_t stage = stage_of(part, backward, piece);

    if (stage == UINT32_MAX)
        return 0;
    return backward ? part->stages[stage].in_elements : part->stages[stage].out_elements;
}

int tutti_network_part_keep(struct tutti_network_work *work, struct tutti_err *err)
{
    const struct tutti_network *part = work->net;

    work->kept = tutti_arena_take(work->arena, part->stage_count, sizeof(work->kept[0]));
    for (uint32_t i = 0; work->kept != NULL && i < part->stage_count; i++) {
        work->kept[i] = tutti_arena_take(
            work->arena, work->max_batch * part->stages[i].out_elements + 1, sizeof(float));
        if (work->kept[i] == NULL)
            return tutti_nomem(err);
    }
    return work->kept == NULL ? tutti_nomem(err) : 0;
}

static void copy(float *to, const float *from, size_t elements)
{
    memcpy(to, from, elements * sizeof(*to));
}

static void forward(struct tutti_network_work *work, uint32_t i, const float *weights)
{
    const struct tutti_train_stage *stage = &work->net->stages[i];

    if (stage->kind == TUTTI_TRAIN_DENSE)
        tutti_dense_forward(work, i, weights);
    else if (stage->kind == TUTTI_TRAIN_CONVOLUTION)
        tutti_convolution_forward(work, i, weights);
    else if (stage->kind == TUTTI_TRAIN_EMBEDDING)
        tutti_embedding_forward(work, i, weights);
    else {
        if (i == 0)
            copy(work->values[0], work->batch.inputs, work->batch.count * stage->out_elements);
        tutti_dropout_forward(work, i);
    }
}

void tutti_network_part_forward(struct tutti_network_work *work,
                                const struct tutti_network_piece *piece, const float *weights)
{
    const struct tutti_network *part = work->net;
    const size_t count = work->batch.count;
    uint32_t i = 0;

    if (count == 0)
        return;
    if (piece->piece > 0) { /* what the last has left is whole now */
        i = stage_of(part, false, piece->piece - 1);
        copy(work->values[i], piece->added, count * part->stages[i].out_elements);
        tutti_dense_finish(work, i++, weights);
    }
    for (; i < part->stage_count; i++) {
        if (is_added(part, i, false)) {
            tutti_dense_product(work, i, weights);
            copy(piece->adds, work->values[i], count * part->stages[i].out_elements);
            return;
        }
        forward(work, i, weights);
    }
    if (part->is_before) {
        copy(piece->end, work->values[i - 1], count * part->stages[i - 1].out_elements);
        return;
    }
    work->turn = 0;
    tutti_loss_forward(work, work->gradients[0]);
}

/* The gradient of what stage `i` reads, and unless `gradients` is NULL of its weights. */
static void backward(struct tutti_network_work *work, uint32_t i, const float *weights,
                     float *gradients, bool add)
{
    const struct tutti_network *part = work->net;
    const struct tutti_train_stage *stage = &part->stages[i];
    float *slopes = work->gradients[work->turn];
    float *in_slopes = i > 0 || part->is_behind ? work->gradients[1 - work->turn] : NULL;

    if (stage->kind == TUTTI_TRAIN_DROPOUT) {
        tutti_dropout_backward(work, i, slopes);
        return;
    }
    if (gradients == NULL)
        copy(work->kept[i], slopes, work->batch.count * stage->out_elements);
    if (stage->kind == TUTTI_TRAIN_DENSE)
        tutti_dense_backward(work, i, weights, slopes, in_slopes, gradients, add);
    else if (stage->kind == TUTTI_TRAIN_CONVOLUTION)
        tutti_convolution_backward(work, i, weights, slopes, in_slopes, gradients, add);
    else if (gradients != NULL)
        tutti_embedding_backward(work, i, slopes, gradients, add);
    work->turn = 1 - work->turn;
}

static void clear(const struct tutti_network_work *work, float *gradients, bool add)
{
    const struct tutti_network *part = work->net;
    const struct tutti_network_run *last =
        part->run_count > 0 ? &part->runs[part->run_count - 1] : NULL;

    if (!add && gradients != NULL && last != NULL)
        memset(gradients, 0, (size_t)(last->at + last->count) * sizeof(*gradients));
}

void tutti_network_part_backward(struct tutti_network_work *work,
                                 const struct tutti_network_piece *piece, const float *weights,
                                 const float *slopes, float *gradients, bool add)
{
    const struct tutti_network *part = work->net;
    const size_t count = work->batch.count;
    uint32_t i = part->stage_count;

    if (count == 0) {
        clear(work, gradients, add || piece->piece > 0);
        return;
    }
    if (piece->piece > 0) {
        i = stage_of(part, true, piece->piece - 1);
        copy(work->gradients[work->turn], piece->added, count * part->stages[i].in_elements);
    } else if (part->is_before) {
        work->turn = 0;
        copy(work->gradients[0], slopes, count * part->stages[i - 1].out_elements);
    }
    while (i-- > 0) {
        backward(work, i, weights, gradients, add);
        if (is_added(part, i, true)) {
            copy(piece->adds, work->gradients[work->turn], count * part->stages[i].in_elements);
            return;
        }
    }
    if (part->is_behind)
        copy(piece->end, work->gradients[work->turn], count * part->stages[0].in_elements);
}

void tutti_network_part_weights(struct tutti_network_work *work, const float *weights,
                                float *gradients, bool add)
{
    const struct tutti_network *part = work->net;

    if (work->batch.count == 0) {
        clear(work, gradients, add);
        return;
    }
    for (uint32_t i = part->stage_count; i-- > 0;) {
        const struct tutti_train_stage *stage = &part->stages[i];

        if (stage->kind == TUTTI_TRAIN_DENSE)
            tutti_dense_backward(work, i, weights, work->kept[i], NULL, gradients, add);
        else if (stage->kind == TUTTI_TRAIN_CONVOLUTION)
            tutti_convolution_backward(work, i, weights, work->kept[i], NULL, gradients, add);
        else if (stage->kind == TUTTI_TRAIN_EMBEDDING)
            tutti_embedding_backward(work, i, work->kept[i], gradients, add);
    }
}
