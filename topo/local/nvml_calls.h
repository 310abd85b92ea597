/* The calls of NVML that are used, declared here: nvml.h is in few toolkits. The stand-in of tests
 * is held to the same declarations. */
#ifndef TUTTI_TOPO_LOCAL_NVML_CALLS_H
#define TUTTI_TOPO_LOCAL_NVML_CALLS_H

#include <stdint.h>

#include "runtime/api.h"

enum {
    TUTTI_NVML_SUCCESS = 0,
    TUTTI_NVML_LINKS_MAX = 36, /* of a GPU; 18 up to NVLink 5 */
    TUTTI_NVML_NAME_BYTES = 96,
    TUTTI_NVML_P2P_READ = 0, /* capabilities of a pair of GPUs */
    TUTTI_NVML_P2P_WRITE = 1,
    TUTTI_NVML_C2C_COUNT = 170, /* fields */
    TUTTI_NVML_C2C_MBYTE_PER_S = 172,
};

enum tutti_nvml_remote {
    TUTTI_NVML_REMOTE_GPU,
    TUTTI_NVML_REMOTE_NPU,
    TUTTI_NVML_REMOTE_SWITCH,
    TUTTI_NVML_REMOTE_UNKNOWN = 255,
};

struct tutti_nvml_pci {
    char bus_legacy[16];
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t device_id;
    uint32_t subsystem_id;
    char bus_id[32];
};
TUTTI_STATIC_ASSERT(sizeof(struct tutti_nvml_pci) == 68, "as nvmlPciInfo_t");

struct tutti_nvml_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

struct tutti_nvml_field {
    uint32_t id;
    uint32_t scope;
    int64_t timestamp;
    int64_t latency_us;
    uint32_t type; /* of the value: 1, 2 and 3 are unsigned of 32, of a long, of 64 bits */
    int32_t result;
    uint64_t value;
};
TUTTI_STATIC_ASSERT(sizeof(struct tutti_nvml_field) == 40, "as nvmlFieldValue_t");

/* name of the field, symbol, parameters; whether a driver must have it */
#define TUTTI_NVML_CALLS(X)                                                                        \
    X(init, "nvmlInit_v2", (void), 1)                                                              \
    X(shutdown, "nvmlShutdown", (void), 1)                                                         \
    X(driver, "nvmlSystemGetDriverVersion", (char *text, unsigned bytes), 1)                       \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *ret), 1)                                          \
    X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned index, void **ret), 1)                    \
    X(name, "nvmlDeviceGetName", (void *device, char *text, unsigned bytes), 1)                    \
    X(pci, "nvmlDeviceGetPciInfo_v3", (void *device, struct tutti_nvml_pci *ret), 1)               \
    X(capability, "nvmlDeviceGetCudaComputeCapability", (void *device, int *major, int *minor), 1) \
    X(memory, "nvmlDeviceGetMemoryInfo", (void *device, struct tutti_nvml_memory *ret), 1)         \
    X(pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration", (void *device, unsigned *ret), 1)     \
    X(pcie_width, "nvmlDeviceGetMaxPcieLinkWidth", (void *device, unsigned *ret), 1)               \
    X(link_state, "nvmlDeviceGetNvLinkState", (void *device, unsigned link, int *ret), 1)          \
    X(link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2",                                             \
      (void *device, unsigned link, struct tutti_nvml_pci *ret), 1)                                \
    X(link_type, "nvmlDeviceGetNvLinkRemoteDeviceType", (void *device, unsigned link, int *ret),   \
      0)                                                                                           \
    X(peer, "nvmlDeviceGetP2PStatus", (void *device, void *other, int capability, int *ret), 0)    \
    X(fields, "nvmlDeviceGetFieldValues",                                                          \
      (void *device, int count, struct tutti_nvml_field *values), 0)                               \
    X(mig, "nvmlDeviceGetMigMode", (void *device, unsigned *now, unsigned *next), 0)

#endif
