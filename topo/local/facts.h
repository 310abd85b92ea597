/* What is known of a machine, text by text; see topo/local.h. */
#ifndef TUTTI_TOPO_LOCAL_FACTS_H
#define TUTTI_TOPO_LOCAL_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topo/local.h"

enum { TUTTI_FACT_BYTES = 4096, TUTTI_FACT_NAME_BYTES = 512 };

/* NVML, or a machine without. */
struct tutti_nvml;

/* The text of that name, or NULL if there is none, asked once. A name that ends with '/' is a
 * folder, one with '@' a link. */
__attribute__((format(printf, 2, 3))) const char *tutti_facts_look(struct tutti_facts *facts,
                                                                   const char *format, ...);
/* The number it begins with, decimal, or `absent`. */
__attribute__((format(printf, 3, 4))) int64_t
tutti_facts_number(struct tutti_facts *facts, int64_t absent, const char *format, ...);
/* 0, or -TUTTI_ENOMEM: some text was lost for want of memory, or there were too many. */
int tutti_facts_status(const struct tutti_facts *facts, struct tutti_err *err);

/* Fetches the next of words between blanks; false: there is none. */
bool tutti_facts_word(const char **list, char *buf, size_t buf_bytes);
/* Fetches the next range of a list of the kernel's, "0-3,8"; false: there is none. */
bool tutti_facts_range(const char **list, uint32_t *ret_first, uint32_t *ret_last);

/* ---- where they come from: what cannot be read is not there ---- */

/* A file, folder or link below `root`, into `buf`. */
bool tutti_facts_from_files(const char *root, const char *name, char buf[TUTTI_FACT_BYTES]);

/* `library` NULL: the usual one, which may be absent: then *ret is NULL. */
int tutti_nvml_open(const char *library, struct tutti_nvml **ret, struct tutti_err *err);
void tutti_nvml_close(struct tutti_nvml *nvml);
/* "count", "driver", "0/name", "0/link/3", ...:
 *   I/name  I/bus  I/sm  I/memory (bytes)  I/pcie (generation, lanes)  I/mig (1: it is parted)
 *   I/link/L (of an active NVLink: gpu, switch, npu or unknown, and the bus id of the other end)
 *   I/c2c (links, Mb/s each)  I/peer/J (1: they reach each other's memory) */
bool tutti_nvml_answer(const struct tutti_nvml *nvml, const char *name, char buf[TUTTI_FACT_BYTES]);

#endif
