/* Classes of hardware and quantities that calibrations know, and the names made of them. */
#ifndef TUTTI_SIM_CALIB_CLASSES_H
#define TUTTI_SIM_CALIB_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/calib.h"

/* A class of GPUs or of links; `parent` is the next more general one, and comes before it. */
struct tutti_calib_class {
    const char *name;
    uint8_t parent; /* number 0 ("any") has itself */
    uint32_t sm;    /* GPUs: compute capability, as in topo/hardware.h; 0: not told by it */
    bool c2c;       /* GPUs: with NVLink-C2C to the CPU */
};

/* Numbers of links that code asks for; all others by name. */
enum tutti_calib_link {
    TUTTI_CALIB_LINK_ANY,
    TUTTI_CALIB_LINK_NVLINK,
    TUTTI_CALIB_LINK_NVSWITCH,
    TUTTI_CALIB_LINK_XGMI,
    TUTTI_CALIB_LINK_C2C,
    TUTTI_CALIB_LINK_ICI,
    TUTTI_CALIB_LINK_GENERIC,
    TUTTI_CALIB_LINK_PCIE,
    TUTTI_CALIB_LINK_HOST,
    TUTTI_CALIB_LINK_ROOT, /* PCIe into a CPU: of links alone */
    TUTTI_CALIB_LINK_NET,
    TUTTI_CALIB_LINK_NVLS,      /* no link: NVSwitch adding up */
    TUTTI_CALIB_LINK_NVLS_TREE, /* nor this: on several hosts, their sums joined in trees */
    TUTTI_CALIB_LINK_CPUNET,    /* a network of which GPUs reach the NIC through a CPU */
    TUTTI_CALIB_LINK_PEER,      /* as root, where GPUs write to each other's memory */
};

enum tutti_calib_quantity {
    TUTTI_CALIB_LAUNCH,
    TUTTI_CALIB_RANK,
    TUTTI_CALIB_CHANNEL,
    TUTTI_CALIB_EARLY_CHANNEL,
    TUTTI_CALIB_STEP,
    TUTTI_CALIB_SLICE,
    TUTTI_CALIB_LANE,
    TUTTI_CALIB_PERCENT,
    TUTTI_CALIB_P2P_LAUNCH,
    TUTTI_CALIB_P2P_STEP,
    TUTTI_CALIB_P2P_LANE,
    TUTTI_CALIB_P2P_PERCENT,
    TUTTI_CALIB_QUANTITY_COUNT
};

/* Number `index`, or NULL past the last. */
const struct tutti_calib_class *tutti_calib_gpu(size_t index);
const struct tutti_calib_class *tutti_calib_link(size_t index);
/* The number of a link's class by name, or that of `other` if there is none of that name. */
uint8_t tutti_calib_link_find(const char *name, enum tutti_calib_link other);

/* Instead of a GPU: what devices take of a training step. */
enum { TUTTI_CALIB_FRAMEWORK = UINT8_MAX };

/* A parameter. */
struct tutti_calib_key {
    uint8_t gpu;      /* or TUTTI_CALIB_FRAMEWORK: then */
    uint8_t link;     /* ... the framework's number, */
    uint8_t protocol; /* ... 0 */
    uint8_t quantity; /* enum tutti_calib_quantity; ... the constant's number */
};

/* Its place in the order of parameters. */
static inline uint32_t tutti_calib_key_order(struct tutti_calib_key key)
{
    return (uint32_t)key.gpu << 24 | (uint32_t)key.link << 16 | (uint32_t)key.protocol << 8 |
           key.quantity;
}

/* Whether any machine asks for such a value: of what is no way for messages (root, peer, nvls,
 * nvlstree) there are but a few. */
bool tutti_calib_key_is_used(struct tutti_calib_key key);

/* -TUTTI_EINVAL for what is no name, or one of a value that is not used. */
int tutti_calib_key_read(const char *name, struct tutti_calib_key *ret, struct tutti_err *err);
void tutti_calib_key_print(struct tutti_calib_key key, char name[TUTTI_CALIB_NAME_BYTES]);

/* The same of "framework.FRAMEWORK.CONSTANT". */
bool tutti_calib_names_framework(const char *name);
int tutti_calib_framework_read(const char *name, struct tutti_calib_key *ret,
                               struct tutti_err *err);
void tutti_calib_framework_print(struct tutti_calib_key key, char name[TUTTI_CALIB_NAME_BYTES]);
/* The most that its value may be. */
double tutti_calib_framework_most(struct tutti_calib_key key);

#endif
