/* The machine that a command line names: a preset, this one, our text, or NCCL topology XML. */
#ifndef TUTTI_TOOLS_CLI_MACHINE_H
#define TUTTI_TOOLS_CLI_MACHINE_H

#include <stddef.h>
#include <stdint.h>

struct tutti_err;
struct tutti_facts;
struct tutti_topo;

/* A preset's SPEC ("dgx-h100:nodes=2"); "local", this machine, with ranks=N or facts=FILE; or a
 * file ("-": stdin): facts of a machine (topo/local.h) if it begins so, NCCL topology XML if the
 * first character that is no blank is '<', else our text. A preset, or local, wins over a file of
 * the same name, which "./NAME" still reaches. `nodes` > 1 joins that many copies of a machine of
 * one host: by the preset's own network where it has one, else by tutti_topo_replicate(). */
int tutti_machine_load(const char *spec_or_file, uint32_t nodes, struct tutti_topo **ret,
                       struct tutti_err *err);

/* SPEC `local` alone. *ret_facts: what it was made of, the caller's; NULL: nobody asks. */
int tutti_machine_load_local(const char *spec, struct tutti_facts **ret_facts,
                             struct tutti_topo **ret, struct tutti_err *err);

/* The presets that a misspelt or shortened name may mean, "'dgx-1v' or 'dgx-2'"; NULL if none. */
const char *tutti_machine_alike(const char *spec, char *buf, size_t buf_bytes);

#endif
