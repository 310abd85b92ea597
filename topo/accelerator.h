/* Accelerators by name: what one device can do and hold, by the vendors' data sheets. */
#ifndef TUTTI_TOPO_ACCELERATOR_H
#define TUTTI_TOPO_ACCELERATOR_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_topo;

/* What products are computed in; sums are of 32 bits everywhere. */
enum tutti_precision {
    TUTTI_PRECISION_FP32,
    TUTTI_PRECISION_TF32,
    TUTTI_PRECISION_FP16,
    TUTTI_PRECISION_BF16,
    TUTTI_PRECISION_FP8,
    TUTTI_PRECISION_FP4,
    TUTTI_PRECISION_COUNT
};

struct tutti_accelerator {
    const char *name; /* "h100", as after gpu= of the presets; "tpu-v3": one chip */
    const char *vendor;
    /* Dense products by precision; 0: not in hardware (a framework then uses the next wider). */
    uint64_t flops_per_s[TUTTI_PRECISION_COUNT];
    uint64_t mem_bytes; /* capacity, as nvidia-smi shows it where that is known */
    uint64_t mem_bytes_per_s;
    uint32_t units;     /* streaming multiprocessors, compute units, matrix units */
    uint32_t clock_mhz; /* boost; 0 not published */
    uint32_t watts;     /* board power at most; 0 not published */
    const char *source;
};

/* All of them; *ret_count is how many. */
const struct tutti_accelerator *tutti_accelerators(size_t *ret_count);

/* By name, or as vendors, nvidia-smi and logs spell it, in any case: "H100", "A100-SXM4-80GB",
 * "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB", "TPU v3". -TUTTI_EINVAL with the nearest. */
int tutti_accelerator_find(const char *name, const struct tutti_accelerator **ret,
                           struct tutti_err *err);

/* That of a machine, all of whose devices are alike: by its SPEC, or else the first with its
 * devices' peak and memory rate, O(devices); NULL: not known. */
const struct tutti_accelerator *tutti_topo_accelerator(const struct tutti_topo *topo);

/* Products of this precision, or of the next wider one that the hardware has: of fp16 bf16 (TPUs
 * take "mixed" for it), of bf16 tf32 and fp32, never fp16; 0: none is known. */
uint64_t tutti_accelerator_flops(const struct tutti_accelerator *accelerator,
                                 enum tutti_precision precision);

/* "fp32" "tf32" "fp16" "bf16" "fp8" "fp4"; find also takes "amp" and "mixed" (fp16) and any case;
 * -TUTTI_EINVAL with all of them. */
const char *tutti_precision_name(enum tutti_precision precision);
int tutti_precision_find(const char *name, enum tutti_precision *ret, struct tutti_err *err);

TUTTI_API_END

#endif
