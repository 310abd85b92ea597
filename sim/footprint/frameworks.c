/* What frameworks keep beside what formulas say: a line of constants each, with its source. */
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/footprint.h"
#include "sim/train/framework_names.h"

#define MIB(count) ((uint64_t)(count) << 20)

/* Logits at 16 bits, as fp32, their softmax and its gradient: 2 + 4 + 4 + 4 bytes, unless fitted.
 * PyTorch: rows that ran with 77.4 GiB allocated on an H100 of 79.6 (ultrascale_h100_1B_8B) leave
 * at most 0.3 % for fragmentation: short of memory, its allocator gives back what it keeps.
 * cuBLAS takes 32 MiB on Hopper, 8 before (PyTorch, notes on CUDA semantics). cuDNN: fitted to
 * every second row of Detectron2's model zoo (fp32, PyTorch); others are taken as that. */
static const struct tutti_framework_memory frameworks[] = {
    {.name = "generic",
     .weight_bytes = 2,
     .gradient_bytes = 2,
     .master_bytes = 4,
     .saved_percent = 100,
     .logit_millibytes = 14000,
     .source = "Rajbhandari et al. 2020 (ZeRO), section 3.1: 2 + 2 + 12 bytes a parameter"},
    {.name = "nanotron",
     .weight_bytes = 2,
     .gradient_bytes = 4,
     .master_bytes = 4,
     .saved_percent = 150,
     .fragment_permille = 3,
     .reduced_millibytes = 2000,
     .logit_millibytes = 9430,
     .logit_whole_millibytes = 1400,
     .workspace_bytes = MIB(223),
     .convolution_bytes = MIB(256),
     .source = "gradients accumulated at 32 bits, with replicas beside those of the pass at 16; "
               "what is saved, logits, these and workspace fitted to every second of the measured "
               "rows of ultrascale_h100_1B_8B (tutti-fit memory), whose GB are GiB of "
               "torch.cuda.max_memory_allocated (nanotron, logging)"},
    {.name = "deepspeed",
     .weight_bytes = 2,
     .gradient_bytes = 2,
     .master_bytes = 4,
     .bucket_use = TUTTI_BUCKETS_FIXED,
     .saved_percent = 100,
     .fragment_permille = 3,
     .logit_millibytes = 14000,
     .bucket_elements = 500000000,
     .workspace_bytes = MIB(32),
     .convolution_bytes = MIB(256),
     .source = "as ZeRO's paper; reduce and all-gather buckets of 5e8 elements (DeepSpeed, "
               "configuration)"},
    {.name = "internevo",
     .weight_bytes = 2,
     .gradient_bytes = 2,
     .master_bytes = 4,
     .saved_percent = 100,
     .fragment_permille = 3,
     .logit_millibytes = 14000,
     .workspace_bytes = MIB(32),
     .convolution_bytes = MIB(256),
     .source = "as ZeRO's paper; buckets not modelled"},
    {.name = "megatron",
     .weight_bytes = 2,
     .gradient_bytes = 4,
     .master_bytes = 4,
     .saved_percent = 100,
     .fragment_permille = 3,
     .logit_millibytes = 14000,
     .workspace_bytes = MIB(32),
     .convolution_bytes = MIB(256),
     .source = "Korthikanti et al. 2022: gradients accumulated at 32 bits, 18 bytes a parameter"},
    {.name = "nemo",
     .weight_bytes = 2,
     .gradient_bytes = 2,
     .master_bytes = 4,
     .saved_percent = 100,
     .fragment_permille = 3,
     .logit_millibytes = 14000,
     .workspace_bytes = MIB(32),
     .convolution_bytes = MIB(256),
     .source = "as megatron, on which it stands; gradients at 16 bits (its recipes: "
               "grad_reduce_in_fp32=False)"},
    {.name = "horovod",
     .weight_bytes = 4,
     .cast_bytes = 2,
     .gradient_bytes = 4,
     .bucket_use = TUTTI_BUCKETS_FIXED,
     .saved_percent = 100,
     .logit_millibytes = 14000,
     .bucket_elements = MIB(128) / 4,
     .workspace_bytes = MIB(32),
     .convolution_bytes = MIB(256),
     .source = "fusion buffer of 128 MiB (Horovod, HOROVOD_FUSION_THRESHOLD)"},
    {.name = "tensorflow",
     .weight_bytes = 4,
     .cast_bytes = 2,
     .gradient_bytes = 4,
     .bucket_use = TUTTI_BUCKETS_COPY,
     .saved_percent = 100,
     .logit_millibytes = 14000,
     .workspace_bytes = MIB(32),
     .convolution_bytes = MIB(256),
     .source = "variables at 32 bits, cast for products (Keras mixed precision); one pack of all "
               "gradients (cross_device_ops, num_packs = 1)"},
    {.name = "pytorch",
     .weight_bytes = 4,
     .cast_bytes = 2,
     .gradient_bytes = 4,
     .bucket_use = TUTTI_BUCKETS_COPY,
     .saved_percent = 158,
     .fragment_permille = 3,
     .logit_millibytes = 14000,
     .workspace_bytes = MIB(32),
     .convolution_bytes = MIB(256),
     .source = "autocast keeps copies at 16 bits; DDP's buckets are copies of the gradients "
               "(gradient_as_bucket_view=False); transformers without fused kernels save as "
               "nanotron's, which is PyTorch"},
    {.name = "jax",
     .weight_bytes = 4,
     .cast_bytes = 2,
     .gradient_bytes = 4,
     .saved_percent = 100,
     .logit_millibytes = 14000,
     .source = "parameters at 32 bits, cast for products; XLA's temporaries are not modelled"},
};

enum { COUNT = sizeof(frameworks) / sizeof(frameworks[0]) };

const struct tutti_framework_memory *tutti_memory_frameworks(size_t *ret_count)
{
    *ret_count = COUNT;
    return frameworks;
}

int tutti_memory_framework_find(const char *text, const struct tutti_framework_memory **ret,
                                struct tutti_err *err)
{
    const char *name = tutti_framework_name(text, TUTTI_FRAMEWORK_OF_MEMORY);
    char names[256] = "";
    char hint[TUTTI_HINT_BYTES];
    size_t used = 0;

    for (size_t i = 0; i < COUNT; i++) {
        if (name != NULL && strcmp(frameworks[i].name, name) == 0) {
            *ret = &frameworks[i];
            return 0;
        }
        if (used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? " " : "",
                                     frameworks[i].name);
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown framework '%.40s' (%s%s)", text,
                      tutti_nearest_hint(text, names, hint), names);
}
