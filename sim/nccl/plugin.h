/* What a network's plugin does to NCCL on AWS (github.com/aws/aws-ofi-nccl, platform-aws and tuner,
 * 2025): it sets variables that are not set, and from 3 hosts on its tuner takes algorithm and
 * protocol by regions of bytes and ranks, whatever NCCL's own estimates say. The machine is known
 * by the latency that the plugin states for its ports. Not modelled: its regions for one or two
 * GPUs a host, and channels and chunks that it chooses for some trees. That Simple alone may run
 * where bytes come out of order, the hardware says (tutti_hw_net.unordered). */
#ifndef TUTTI_SIM_NCCL_PLUGIN_H
#define TUTTI_SIM_NCCL_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_nccl_choice;
struct tutti_nccl_comm;
struct tutti_nccl_env;
struct tutti_nccl_version;

enum tutti_nccl_plugin {
    TUTTI_PLUGIN_NONE,
    TUTTI_PLUGIN_P4D,  /* p4d, p4de: A100 */
    TUTTI_PLUGIN_P5,   /* p5, p5e: H100, H200 */
    TUTTI_PLUGIN_P5EN, /* H200 */
    TUTTI_PLUGIN_P6_B200,
    TUTTI_PLUGIN_P6_B300,
    TUTTI_PLUGIN_COUNT
};

/* Of ports of that latency beside GPUs of that compute capability (90: 9.0). */
enum tutti_nccl_plugin tutti_nccl_plugin_of(uint32_t latency_ns, uint32_t compute);

/* What the plugin of that version's time stated, where today's states `latency_us`. */
double tutti_nccl_plugin_latency_us(enum tutti_nccl_plugin plugin,
                                    const struct tutti_nccl_version *version, double latency_us);

/* Sets what it sets for that version of NCCL, where nothing is set yet. */
void tutti_nccl_plugin_set(enum tutti_nccl_plugin plugin, const struct tutti_nccl_version *version,
                           struct tutti_nccl_env *env);

/* Whether its tuner is asked (NCCL_TUNER_PLUGIN=none: it is not). */
bool tutti_nccl_plugin_tunes(const struct tutti_nccl_comm *comm);

/* Takes algorithm and protocol of what is not missing for an operation (enum tutti_nccl_function);
 * false: NCCL's own choice stays. */
bool tutti_nccl_plugin_picks(const struct tutti_nccl_comm *comm, uint32_t function, uint64_t bytes,
                             struct tutti_nccl_choice *choice);

#endif
