/* Optimizers, learning rates and loss scales. */
#include "runtime/optimizer.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/loops.h"

int tutti_update_named(const char *name, struct tutti_update_rule *ret, struct tutti_err *err)
{
    static const struct {
        const char *name;
        struct tutti_update_rule optimizer;
    } known[] = {
        {"sgd", {.kind = TUTTI_UPDATE_SGD, .rate = 0.01}},
        {"momentum", {.kind = TUTTI_UPDATE_SGD, .rate = 0.01, .momentum = 0.9}},
        {"nesterov", {.kind = TUTTI_UPDATE_SGD, .rate = 0.01, .momentum = 0.9, .nesterov = true}},
        {"adam",
         {.kind = TUTTI_UPDATE_ADAM, .rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7}},
    };
    static const char words[] = "sgd, momentum, nesterov, adam";
    char hint[TUTTI_HINT_BYTES];

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(name, known[i].name) != 0)
            continue;
        *ret = known[i].optimizer;
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown optimizer '%s' (%s%s)", name,
                      tutti_nearest_hint(name, words, hint), words);
}

uint32_t tutti_update_moments(const struct tutti_update_rule *o)
{
    if (o->kind == TUTTI_UPDATE_ADAM)
        return 2;
    return o->momentum > 0 ? 1 : 0;
}

struct tutti_update_step tutti_update_step_of(const struct tutti_update_rule *o, double rate,
                                              uint64_t step, double gradient_scale)
{
    struct tutti_update_step u = {.gradient_scale = (float)gradient_scale,
                                  .decay = (float)(o->decay * rate),
                                  .rate = (float)rate,
                                  .momentum = (float)o->momentum,
                                  .nesterov = o->nesterov};

    assert(step >= 1);
    if (o->kind == TUTTI_UPDATE_ADAM) {
        u.mean_part = (float)(1 - o->beta1);
        u.variance_part = (float)(1 - o->beta2);
        u.mean_rate = (float)(rate * sqrt(1 - pow(o->beta2, (double)step)) /
                              (1 - pow(o->beta1, (double)step)));
        u.epsilon = (float)o->epsilon;
    }
    return u;
}

void tutti_update_weights(const struct tutti_update_rule *o, double rate, uint64_t step,
                          double gradient_scale, float *weights, const float *gradients,
                          float *const *moments, size_t count)
{
    const struct tutti_loops *loops = tutti_loops_at(0);
    const struct tutti_update_step u = tutti_update_step_of(o, rate, step, gradient_scale);

    if (o->kind == TUTTI_UPDATE_ADAM)
        loops->adam(&u, weights, gradients, moments[0], moments[1], count);
    else if (o->momentum > 0)
        loops->momentum(&u, weights, gradients, moments[0], count);
    else
        loops->sgd(&u, weights, gradients, count);
}

double tutti_clip_scale(double norm, double norm_max)
{
    return norm_max > 0 && norm > norm_max ? norm_max / norm : 1;
}

double tutti_rate_at(const struct tutti_rate *rate, uint64_t step)
{
    const double pi = 3.14159265358979323846;
    double done;

    if (step < rate->warmup_steps)
        return (double)step / (double)rate->warmup_steps;
    if (rate->kind == TUTTI_RATE_CONSTANT)
        return 1;
    step -= rate->warmup_steps;
    done = step >= rate->decay_steps ? 1 : (double)step / (double)rate->decay_steps;
    return (1 - rate->floor) * 0.5 * (1 + cos(pi * done)) + rate->floor;
}

struct tutti_loss_scale tutti_loss_scale_dynamic(void)
{
    return (struct tutti_loss_scale){.scale = 32768, .growth_steps = 2000};
}

double tutti_loss_scale_of(const struct tutti_loss_scale *scale)
{
    return scale->scale > 0 ? scale->scale : 1;
}

bool tutti_loss_scale_update(struct tutti_loss_scale *scale, bool finite)
{
    const double scale_max = 0x1p100; /* far beyond any use, and float32 still has it */

    if (!(scale->scale > 0))
        return finite;
    if (!finite) {
        scale->good_steps = 0;
        scale->scale = scale->scale > 2 ? scale->scale / 2 : 1;
        return false;
    }
    if (++scale->good_steps == scale->growth_steps) {
        scale->good_steps = 0;
        if (scale->scale < scale_max)
            scale->scale *= 2;
    }
    return true;
}
