/* The constants of frameworks by their names; see sim/device.h. */
#include <stddef.h>

#include "sim/device.h"

#define FIELD(name) #name, offsetof(struct tutti_framework, name)

/* How far a constant of another cluster usually is from what Tutti has is a guess: shares of peak
 * rates differ by a quarter with libraries and shapes, what hosts need by a factor of two. A
 * convolution may pass the peak: Winograd's needs down to 1 / 2.25 of the multiplications. */
static const struct tutti_framework_constant constants[] = {
    {FIELD(matmul_fp32), 1, 0.25},      {FIELD(matmul_half), 1, 0.25},
    {FIELD(convolution_fp32), 2, 0.25}, {FIELD(convolution_half), 1, 0.25},
    {FIELD(attention), 1, 0.25},        {FIELD(fill_elements), 1e4, 0.25},
    {FIELD(memory), 1, 0.25},           {FIELD(passes), 1e4, 0.35},
    {FIELD(logit_bytes), 1e4, 0.5},     {FIELD(optimizer_bytes), 1e4, 0.35},
    {FIELD(forward_us), 1e6, 0.7},      {FIELD(backward_us), 1e6, 0.7},
    {FIELD(step_us), 1e6, 0.7},         {FIELD(layer_step_us), 1e6, 0.7},
    {FIELD(collective_us), 1e6, 0.7},   {FIELD(staged_collective_us), 1e6, 0.7},
    {FIELD(wait_us), 1e6, 0.7},         {FIELD(message_us), 1e6, 0.7},
    {FIELD(bucket_MB), 1e6, 0.7},       {FIELD(bucket_rank_MB), 1e6, 0.7},
    {FIELD(rank_us), 1e6, 0.7},         {FIELD(overlap), 1, 0.35},
    {FIELD(overlap_next), 1, 0.35},     {FIELD(async_tensor), 1, 0.35},
    {FIELD(async_forward), 1, 0.35},
};

const struct tutti_framework_constant *tutti_framework_constants(size_t *ret_count)
{
    *ret_count = sizeof(constants) / sizeof(constants[0]);
    return constants;
}

double tutti_framework_get(const struct tutti_framework *f,
                           const struct tutti_framework_constant *c)
{
    return *(const double *)(const void *)((const char *)f + c->offset);
}

void tutti_framework_set(struct tutti_framework *f, const struct tutti_framework_constant *c,
                         double value)
{
    *(double *)(void *)((char *)f + c->offset) = value;
}
