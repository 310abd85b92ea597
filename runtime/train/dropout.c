/* Dropout: which activations survive is drawn for each example by itself. */
#include "runtime/random.h"
#include "runtime/train/stage.h"

/* Four activations a random number, 16 bits each: rates are multiples of 2^-16. A part of a network
 * draws those of the whole, and keeps its own. */
static void draw(const struct tutti_network_work *work, const struct tutti_train_stage *stage,
                 uint64_t example, float *mask, size_t count)
{
    const struct tutti_network_batch *batch = &work->batch;
    const uint32_t below = (uint32_t)(work->net->dropout * 65536);
    const float keep = 65536 / (float)(65536 - below);
    struct tutti_random random;
    uint64_t bits = 0;

    tutti_random_seed(&random,
                      tutti_random_hash(tutti_random_hash(batch->seed, stage->number, 0xd709, 0),
                                        batch->step, example, 0));
    for (size_t i = 0; i < stage->first + count; i++, bits >>= 16) {
        if (i % 4 == 0)
            bits = tutti_random_next(&random);
        if (i >= stage->first)
            mask[i - stage->first] = (bits & 0xffff) < below ? 0 : keep;
    }
}

void tutti_dropout_forward(struct tutti_network_work *work, uint32_t index)
{
    const struct tutti_network_batch *batch = &work->batch;
    size_t elements = work->net->stages[index].out_elements;

    for (size_t i = 0; i < batch->count; i++)
        draw(work, &work->net->stages[index],
             batch->examples != NULL ? batch->examples[i] : batch->first_example + i,
             work->masks[index] + i * elements, elements);
    work->loops->multiply_elements(work->values[index], work->masks[index],
                                   batch->count * elements);
}

void tutti_dropout_backward(struct tutti_network_work *work, uint32_t index, float *slopes)
{
    work->loops->multiply_elements(slopes, work->masks[index],
                                   work->batch.count * work->net->stages[index].out_elements);
}
