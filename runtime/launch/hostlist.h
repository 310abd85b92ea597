/* Slurm's short forms: "gnode[10,20-25],login" for hosts, "4(x2),3" for what each of them has. */
#ifndef TUTTI_RUNTIME_LAUNCH_HOSTLIST_H
#define TUTTI_RUNTIME_LAUNCH_HOSTLIST_H

#include <stddef.h>
#include <stdint.h>

struct tutti_err;

enum { TUTTI_HOSTLIST_COUNT_MAX = 1 << 20 };

/* How many hosts the list has. -TUTTI_EINVAL names what cannot be read. */
int tutti_hostlist_count(const char *list, uint32_t *ret, struct tutti_err *err);

/* The name of number `index`, below that count. */
int tutti_hostlist_at(const char *list, uint32_t index, char *ret, size_t ret_bytes,
                      struct tutti_err *err);

/* Number `index` of "4(x2),3": 4, 4, 3. */
int tutti_repeated_at(const char *list, uint32_t index, uint32_t *ret, struct tutti_err *err);

#endif
