/* Dense layers: y = relu(x W + b), and the three gradients. */
#include "runtime/train/stage.h"

void tutti_dense_product(struct tutti_network_work *work, uint32_t index, const float *weights)
{
    const struct tutti_train_stage *stage = &work->net->stages[index];
    const struct tutti_products *products = work->net->products;

    products->multiply(products,
                       &(struct tutti_product){.rows = work->batch.count,
                                               .columns = stage->outputs,
                                               .depth = stage->depth,
                                               .a = tutti_train_stage_inputs(work, index),
                                               .b = tutti_train_stage_weights(work, stage, weights),
                                               .c = work->values[index]});
}

void tutti_dense_finish(struct tutti_network_work *work, uint32_t index, const float *weights)
{
    const struct tutti_train_stage *stage = &work->net->stages[index];

    work->loops->bias(work->values[index], tutti_train_stage_bias(work, stage, weights),
                      work->batch.count, stage->outputs, stage->relu);
}

void tutti_dense_forward(struct tutti_network_work *work, uint32_t index, const float *weights)
{
    tutti_dense_product(work, index, weights);
    tutti_dense_finish(work, index, weights);
}

void tutti_dense_backward(struct tutti_network_work *work, uint32_t index, const float *weights,
                          float *slopes, float *in_slopes, float *gradients, bool add)
{
    const struct tutti_train_stage *stage = &work->net->stages[index];
    const struct tutti_products *products = work->net->products;
    size_t count = work->batch.count;

    if (stage->relu)
        work->loops->relu_backward(slopes, work->values[index], count * stage->outputs);
    if (gradients != NULL) {
        tutti_bias_backward(work, stage, slopes, count, gradients, add);
        products->multiply(products,
                           &(struct tutti_product){.rows = stage->depth,
                                                   .columns = stage->outputs,
                                                   .depth = count,
                                                   .a = tutti_train_stage_inputs(work, index),
                                                   .transpose_a = true,
                                                   .b = slopes,
                                                   .c = gradients + stage->weight_at,
                                                   .add = add});
    }
    if (in_slopes == NULL)
        return;
    products->multiply(products,
                       &(struct tutti_product){.rows = count,
                                               .columns = stage->depth,
                                               .depth = stage->outputs,
                                               .a = slopes,
                                               .b = tutti_train_stage_weights(work, stage, weights),
                                               .transpose_b = true,
                                               .c = in_slopes});
}
