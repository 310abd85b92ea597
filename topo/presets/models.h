/* The catalogue of GPUs that hosts can be made of: what data sheets say of each. */
#ifndef TUTTI_TOPO_PRESETS_MODELS_H
#define TUTTI_TOPO_PRESETS_MODELS_H

#include <stddef.h>
#include <stdint.h>

/* How a GPU is sold, which decides what hosts look like unless the SPEC says. */
enum tutti_gpu_form {
    TUTTI_FORM_CARD,    /* in a PCIe slot; an NVLink bridge only where the SPEC says so */
    TUTTI_FORM_GEFORCE, /* the same; its driver lets no card or NIC reach its memory by PCIe */
    TUTTI_FORM_MESH,    /* modules wired to each other: GH200, Instinct */
    TUTTI_FORM_CUBE,    /* four of them wired to each other, eight as a hybrid cube mesh */
    TUTTI_FORM_BOARD,   /* four of them wired to each other, more round NVSwitches */
    TUTTI_FORM_TRAY,    /* round the NVSwitches of a rack */
    TUTTI_FORM_PACKAGE, /* two devices in one: MI250X */
};

enum tutti_gpu_cpu { TUTTI_CPU_INTEL, TUTTI_CPU_AMD, TUTTI_CPU_GRACE, TUTTI_CPU_COUNT };

struct tutti_gpu_model {
    const char *name; /* as after gpu= */
    uint32_t sm;      /* as in struct tutti_hw_gpu */
    uint8_t form;     /* enum tutti_gpu_form */
    uint8_t cpu;      /* enum tutti_gpu_cpu: that it is most often sold with */
    uint8_t pcie_generation;
    uint8_t nvlink_count; /* of one GPU; xGMI: of AMD's */
    uint8_t c2c_count;
    uint64_t nvlink_mbyte_per_s; /* of each, one way */
    uint64_t mem_mbyte_per_s;
    uint64_t giga_flops; /* dense bf16, or fp16 where there is no bf16; 0: not published */
    const char *source;
};

enum { TUTTI_C2C_MBYTE_PER_S = 44712 }; /* of one link, one way: models.inc */

/* NULL: not in the catalogue. */
const struct tutti_gpu_model *tutti_gpu_model_find(const char *name);
/* By the name that drivers print, "NVIDIA H100 80GB HBM3"; NULL: it names none. */
const struct tutti_gpu_model *tutti_gpu_model_of_device(const char *device);
/* NULL past the last. */
const struct tutti_gpu_model *tutti_gpu_model_at(size_t index);

#endif
