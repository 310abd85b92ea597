/* Losses: softmax cross-entropy of classes, or the mean square error of targets. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/train/stage.h"

/* The largest logit; a NaN counts as that, so that it is not lost. */
static size_t largest(const float *logits, size_t count)
{
    size_t at = 0;

    for (size_t i = 1; i < count; i++)
        if (!(logits[i] <= logits[at]) && logits[at] == logits[at])
            at = i;
    return at;
}

/* loss = log(sum of e^(x - m)) - (x[label] - m); gradient (e^(x - m) / sum - [label]) x scale. */
static void cross_entropy(struct tutti_network_work *work, const float *logits, float *slopes)
{
    const struct tutti_network_batch *batch = &work->batch;
    size_t classes = (size_t)work->net->input.classes;
    double loss = 0;

    for (size_t i = 0; i < batch->count; i++) {
        const float *x = logits + i * classes;
        size_t at = largest(x, classes);

        assert(batch->labels[i] < classes);
        for (size_t j = 0; j < classes; j++)
            slopes[i * classes + j] = x[j] - x[at];
        work->score.correct += at == batch->labels[i] && x[at] == x[at];
        loss -= (double)slopes[i * classes + batch->labels[i]];
    }
    work->loops->exponential(slopes, batch->count * classes);
    for (size_t i = 0; i < batch->count; i++) {
        float *s = slopes + i * classes;
        float sum = 0;
        float by;

        for (size_t j = 0; j < classes; j++)
            sum += s[j];
        loss += log((double)sum);
        by = batch->gradient_scale / sum;
        for (size_t j = 0; j < classes; j++)
            s[j] *= by;
        s[batch->labels[i]] -= batch->gradient_scale;
    }
    work->score.loss = loss;
}

/* loss = mean of (y - t)^2; gradient 2 (y - t) / targets x scale. */
static void square_error(struct tutti_network_work *work, const float *outputs, float *slopes)
{
    const struct tutti_network_batch *batch = &work->batch;
    size_t targets = (size_t)work->net->input.targets;
    double loss = 0;
    float by = 2 * batch->gradient_scale / (float)targets;

    for (size_t i = 0; i < batch->count * targets; i++) {
        float off = outputs[i] - batch->targets[i];

        loss += (double)off * (double)off;
        slopes[i] = off * by;
    }
    work->score.loss = loss / (double)targets;
}

void tutti_loss_forward(struct tutti_network_work *work, float *slopes)
{
    const float *outputs = work->values[work->net->stage_count - 1];

    if (work->net->input.classes > 0)
        cross_entropy(work, outputs, slopes);
    else
        square_error(work, outputs, slopes);
}
