/* Convolutions by columns of windows (im2col), one example after another: what one needs stays in
 * the second-level cache, and its results do not depend on the batch that it is in. */
#include "runtime/train/stage.h"

void tutti_convolution_forward(struct tutti_network_work *work, uint32_t index,
                               const float *weights)
{
    const struct tutti_train_stage *stage = &work->net->stages[index];
    const struct tutti_products *products = work->net->products;
    const struct tutti_loops *loops = work->loops;
    const float *images = tutti_train_stage_inputs(work, index);
    const float *bias = tutti_train_stage_bias(work, stage, weights);
    size_t positions = stage->window.out_rows * stage->window.out_columns;
    struct tutti_product product = {.rows = positions,
                                    .columns = stage->outputs,
                                    .depth = stage->depth,
                                    .a = work->columns,
                                    .b = tutti_train_stage_weights(work, stage, weights)};

    for (size_t i = 0; i < work->batch.count; i++) {
        float *values = work->values[index] + i * stage->out_elements;

        product.c = stage->pooled ? work->image : values;
        loops->window_columns(&stage->window, images + i * stage->in_elements, work->columns);
        products->multiply(products, &product);
        if (stage->pooled)
            loops->pool(&stage->pool, work->image, bias, stage->relu, values,
                        work->which[index] + i * stage->out_elements);
        else
            loops->bias(values, bias, positions, stage->outputs, stage->relu);
    }
}

void tutti_convolution_backward(struct tutti_network_work *work, uint32_t index,
                                const float *weights, float *slopes, float *in_slopes,
                                float *gradients, bool add)
{
    const struct tutti_train_stage *stage = &work->net->stages[index];
    const struct tutti_products *products = work->net->products;
    const struct tutti_loops *loops = work->loops;
    const float *images = tutti_train_stage_inputs(work, index);
    size_t count = work->batch.count;
    size_t positions = stage->window.out_rows * stage->window.out_columns;
    struct tutti_product of_weights = {.rows = stage->depth,
                                       .columns = stage->outputs,
                                       .depth = positions,
                                       .a = work->columns,
                                       .transpose_a = true,
                                       .c =
                                           gradients != NULL ? gradients + stage->weight_at : NULL};
    struct tutti_product of_columns = {.rows = positions,
                                       .columns = stage->depth,
                                       .depth = stage->outputs,
                                       .b = tutti_train_stage_weights(work, stage, weights),
                                       .transpose_b = true,
                                       .c = work->column_slopes};

    /* A maximum that relu has cleared passes nothing on: where there are fewer elements. */
    if (stage->relu)
        loops->relu_backward(slopes, work->values[index], count * stage->out_elements);
    if (gradients != NULL)
        tutti_bias_backward(work, stage, slopes, count * (stage->out_elements / stage->outputs),
                            gradients, add);
    for (size_t i = 0; i < count; i++) {
        float *after = slopes + i * stage->out_elements;

        if (stage->pooled) {
            loops->pool_backward(&stage->pool, after, work->which[index] + i * stage->out_elements,
                                 work->image);
            after = work->image;
        }
        if (gradients != NULL) {
            loops->window_columns(&stage->window, images + i * stage->in_elements, work->columns);
            of_weights.b = after;
            of_weights.add = add || i > 0;
            products->multiply(products, &of_weights);
        }
        if (in_slopes == NULL)
            continue;
        of_columns.a = after;
        products->multiply(products, &of_columns);
        loops->window_image(&stage->window, work->column_slopes,
                            in_slopes + i * stage->in_elements);
    }
}
