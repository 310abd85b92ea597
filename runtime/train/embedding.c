/* Embeddings: the mean of the rows of a table that an example's words name, and its gradient: of
 * all rows, or of those that are named, word by word. */
#include <assert.h>
#include <string.h>

#include "runtime/train/stage.h"

/* Words are whole numbers; what is beyond the table is its last row. */
static size_t row_of(const struct tutti_train_stage *stage, float word)
{
    return word >= 0 && word < (float)stage->table_rows ? (size_t)word : stage->table_rows - 1;
}

void tutti_embedding_forward(struct tutti_network_work *work, uint32_t index, const float *weights)
{
    const struct tutti_train_stage *stage = &work->net->stages[index];
    const float *words = tutti_train_stage_inputs(work, index);
    const float *table = weights + stage->weight_at;
    const float part = 1 / (float)stage->depth;

    for (size_t i = 0; i < work->batch.count; i++) {
        float *to = work->values[index] + i * stage->outputs;

        memset(to, 0, stage->outputs * sizeof(*to));
        for (size_t w = 0; w < stage->depth; w++) {
            const float *row = table + row_of(stage, words[i * stage->depth + w]) * stage->outputs;

            for (size_t k = 0; k < stage->outputs; k++)
                to[k] += row[k];
        }
        for (size_t k = 0; k < stage->outputs; k++)
            to[k] *= part;
    }
}

void tutti_embedding_backward(struct tutti_network_work *work, uint32_t index, const float *slopes,
                              float *gradients, bool add)
{
    const struct tutti_train_stage *stage = &work->net->stages[index];
    const float *words = tutti_train_stage_inputs(work, index);
    const float part = 1 / (float)stage->depth;
    float *table;

    work->table_slopes = slopes;
    if (gradients == NULL)
        return;
    table = gradients + stage->weight_at;
    if (!add)
        memset(table, 0, stage->table_rows * stage->outputs * sizeof(*table));
    for (size_t i = 0; i < work->batch.count; i++)
        for (size_t w = 0; w < stage->depth; w++) {
            float *row = table + row_of(stage, words[i * stage->depth + w]) * stage->outputs;

            for (size_t k = 0; k < stage->outputs; k++)
                row[k] += part * slopes[i * stage->outputs + k];
        }
}

uint64_t tutti_network_slices(const struct tutti_network_work *work, uint64_t capacity,
                              int64_t *rows, float *values)
{
    const struct tutti_train_stage *stage = &work->net->stages[0];
    const float *words = tutti_train_stage_inputs(work, 0);
    const float part = 1 / (float)stage->depth;
    const uint64_t count = work->batch.count * stage->depth;

    assert(stage->kind == TUTTI_TRAIN_EMBEDDING);
    for (uint64_t i = 0; i < count && count <= capacity; i++) {
        rows[i] = (int64_t)row_of(stage, words[i]);
        for (size_t k = 0; k < stage->outputs; k++)
            values[i * stage->outputs + k] =
                part * work->table_slopes[i / stage->depth * stage->outputs + k];
    }
    return count;
}
