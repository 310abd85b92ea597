/* Frameworks: what they make of a device. */
#include <strings.h>

#include "runtime/status.h"
#include "sim/device.h"
#include "sim/train/framework_names.h"

/* Shares of peak and passes are set once a framework from what is published of it: stas00/
 * ml-engineering's best shapes (A100 86.9 %, H100 80.3 % of peak, of which some 93 % and 84 % are
 * reached in training), NVIDIA's and TensorFlow's benchmark pages for convolutions. */
static const struct tutti_framework frameworks[] = {
    {.name = "pytorch",
     .matmul_fp32 = 0.85,
     .matmul_half = 0.75,
     .convolution_fp32 = 0.75,
     .convolution_half = 0.40,
     .attention = 0.45,
     .fill_elements = 150,
     .memory = 0.85,
     .passes = 2.0,
     .logit_bytes = 40,
     .optimizer_bytes = 36,
     .forward_us = 40,
     .backward_us = 60,
     .step_us = 1000,
     .input_spread = 0.02,
     .source = "eager PyTorch: 5 to 10 us a launch, some 5 kernels an operation"},
    {.name = "compiled",
     .matmul_fp32 = 0.85,
     .matmul_half = 0.75,
     .convolution_fp32 = 0.80,
     .convolution_half = 0.45,
     .attention = 0.50,
     .fill_elements = 150,
     .memory = 0.85,
     .passes = 1.2,
     .logit_bytes = 24,
     .optimizer_bytes = 28,
     .forward_us = 8,
     .backward_us = 12,
     .step_us = 300,
     .input_spread = 0.01,
     .source = "torch.compile or CUDA graphs: fused element-wise operations, few launches"},
    {.name = "megatron",
     .matmul_fp32 = 0.85,
     .matmul_half = 0.72,
     .convolution_fp32 = 0.75,
     .convolution_half = 0.40,
     .attention = 0.50,
     .fill_elements = 150,
     .memory = 0.85,
     .passes = 1.5,
     .logit_bytes = 32,
     .optimizer_bytes = 36,
     .forward_us = 40,
     .backward_us = 60,
     .step_us = 5000,
     .spread = 0.003,
     .input_spread = 0,
     .source = "Megatron-LM and -Core: fused norms, softmax and dropout"},
    {.name = "deepspeed",
     .matmul_fp32 = 0.85,
     .matmul_half = 0.80,
     .convolution_fp32 = 0.75,
     .convolution_half = 0.40,
     .attention = 0.56,
     .fill_elements = 150,
     .memory = 0.85,
     .passes = 2.1,
     .logit_bytes = 115,
     .optimizer_bytes = 36,
     .forward_us = 113,
     .backward_us = 73,
     .step_us = 1000,
     .spread = 0.003,
     .input_spread = 0,
     .source =
         "Megatron-DeepSpeed, eager: attention, passes, logits and the host's share fitted to "
         "vtrain.csv (tutti-fit training), products as published"},
    {.name = "nanotron",
     .matmul_fp32 = 0.85,
     .matmul_half = 0.67,
     .convolution_fp32 = 0.75,
     .convolution_half = 0.40,
     .attention = 0.38,
     .fill_elements = 155,
     .memory = 0.85,
     .passes = 4.0,
     .logit_bytes = 48,
     .optimizer_bytes = 36,
     .forward_us = 100,
     .backward_us = 250,
     .step_us = 10000,
     .spread = 0.005,
     .input_spread = 0,
     .source = "nanotron: eager fp32 norms and rotary embedding"},
    {.name = "tensorflow",
     .matmul_fp32 = 0.80,
     .matmul_half = 0.60,
     .convolution_fp32 = 0.70,
     .convolution_half = 0.33,
     .attention = 0.30,
     .fill_elements = 150,
     .memory = 0.80,
     .passes = 2.0,
     .logit_bytes = 40,
     .optimizer_bytes = 40,
     .forward_us = 5,
     .backward_us = 10,
     .step_us = 2000,
     .input_spread = 0.028,
     .source = "TensorFlow graphs: launches from C++, 2 to 5 us a kernel"},
    {.name = "tensorflow-xla",
     .matmul_fp32 = 0.85,
     .matmul_half = 0.70,
     .convolution_fp32 = 0.75,
     .convolution_half = 0.40,
     .attention = 0.40,
     .fill_elements = 128,
     .memory = 0.85,
     .passes = 1.2,
     .logit_bytes = 24,
     .optimizer_bytes = 28,
     .forward_us = 2,
     .backward_us = 4,
     .step_us = 2000,
     .input_spread = 0.028,
     .source =
         "TensorFlow with XLA on GPUs: fused element-wise operations; the rest as TensorFlow"},
    {.name = "xla",
     .matmul_fp32 = 0.85,
     .matmul_half = 0.70,
     .convolution_fp32 = 0.75,
     .convolution_half = 0.40,
     .attention = 0.40,
     .fill_elements = 128,
     .memory = 0.85,
     .passes = 1.2,
     .logit_bytes = 24,
     .optimizer_bytes = 28,
     .forward_us = 2,
     .backward_us = 4,
     .step_us = 500,
     .spread = 0.002,
     .input_spread = 0.005,
     .source = "XLA, on TPUs and GPUs: fused element-wise operations"},
};

enum { COUNT = sizeof(frameworks) / sizeof(frameworks[0]) };

const struct tutti_framework *tutti_frameworks(size_t *ret_count)
{
    *ret_count = COUNT;
    return frameworks;
}

int tutti_framework_find(const char *name, const struct tutti_framework **ret,
                         struct tutti_err *err)
{
    const char *own = tutti_framework_name(name, TUTTI_FRAMEWORK_OF_DEVICE);

    for (size_t i = 0; i < COUNT; i++) {
        if (strcasecmp(frameworks[i].name, own != NULL ? own : name) != 0)
            continue;
        *ret = &frameworks[i];
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "unknown framework '%.40s' (pytorch, compiled, megatron, deepspeed, "
                      "nanotron, tensorflow, tensorflow-xla or xla)",
                      name);
}
