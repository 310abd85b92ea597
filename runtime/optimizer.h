/* Optimizers, learning rates and loss scales as Keras 3 has them: pure functions over a contiguous
 * part of the weights, element by element, so that any division of them among ranks gives the same
 * bits. */
#ifndef TUTTI_RUNTIME_OPTIMIZER_H
#define TUTTI_RUNTIME_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;

enum tutti_update_kind {
    TUTTI_UPDATE_SGD,  /* w -= rate g; with momentum v = momentum v - rate g and w += v, of
                             Nesterov w += momentum v - rate g */
    TUTTI_UPDATE_ADAM, /* m += (g - m)(1 - beta1), v += (g^2 - v)(1 - beta2), and w -= m rate
                             sqrt(1 - beta2^t) / (1 - beta1^t) / (sqrt(v) + epsilon) */
};

struct tutti_update_rule {
    enum tutti_update_kind kind;
    double rate; /* of the schedule's whole: see tutti_rate_at */
    double momentum;
    bool nesterov;
    double beta1;
    double beta2;
    double epsilon;
    double decay; /* of weights, decoupled: before the update w -= decay x rate w; 0: none */
};

/* "sgd", "momentum" (0.9), "nesterov" (0.9) or "adam" (0.9, 0.999, 1e-7), rates .01 and .001 as
 * Keras has them. -TUTTI_EINVAL with the nearest names. */
int tutti_update_named(const char *name, struct tutti_update_rule *ret, struct tutti_err *err);

/* Floats of state an element: 0, 1 (velocity) or 2 (mean, variance); all begin as 0. */
uint32_t tutti_update_moments(const struct tutti_update_rule *optimizer);

/* One step over `count` weights. moments[i] are arrays of as many floats. `step` counts updates
 * from 1 on; `rate` is that of this step; gradients are multiplied by gradient_scale first: 1 / the
 * loss scale, times what clipping leaves (tutti_clip_scale). */
void tutti_update_weights(const struct tutti_update_rule *optimizer, double rate, uint64_t step,
                          double gradient_scale, float *weights, const float *gradients,
                          float *const *moments, size_t count);

/* By which gradients are multiplied so that their global norm, of which `norm` is the value, is at
 * most `norm_max`; norm_max of 0: never. */
double tutti_clip_scale(double norm, double norm_max);

/* ---- learning rates ---- */

enum tutti_rate_kind { TUTTI_RATE_CONSTANT, TUTTI_RATE_COSINE };

struct tutti_rate {
    enum tutti_rate_kind kind;
    uint64_t warmup_steps; /* from 0 in a straight line to the whole rate */
    uint64_t decay_steps;  /* COSINE: after warming up, to `floor` times the rate, and it stays */
    double floor;
};
/* What part of the whole rate the update after `step` others has. */
double tutti_rate_at(const struct tutti_rate *rate, uint64_t step);

/* ---- the loss scale ---- */

/* Dynamic, on which all ranks agree because all see the same sum. {0} is a scale of 1 for ever. */
struct tutti_loss_scale {
    double scale; /* 0: 1, and constant */
    uint64_t good_steps;
    uint64_t growth_steps; /* good ones after which it doubles; 0: never */
};

/* 2^15, doubled after 2000 good steps. */
struct tutti_loss_scale tutti_loss_scale_dynamic(void);
double tutti_loss_scale_of(const struct tutti_loss_scale *scale);
/* After a step whose gradients, all of them, were finite or not: whether weights are updated. If
 * not, the scale is halved, but not below 1. */
bool tutti_loss_scale_update(struct tutti_loss_scale *scale, bool finite);

TUTTI_API_END

#endif
