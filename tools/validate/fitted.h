/* Whether the costs that this build has were fitted to what was measured. */
#ifndef TUTTI_TOOLS_VALIDATE_FITTED_H
#define TUTTI_TOOLS_VALIDATE_FITTED_H

#include <stdint.h>

struct tutti_cases;
struct tutti_err;

enum tutti_fitted { TUTTI_FITTED_NOT, TUTTI_FITTED_TOO, TUTTI_FITTED_UNKNOWN };

enum { TUTTI_FITTED_ID_BYTES = 128 };

/* Looks for the cases, measured by `rank_count` ranks, among the tables of measurements that the
 * fit was made to, by its own words: a table that has half of them, to the digit, is of that log.
 * `id` is the table's name if there is one; unknown: those tables are not on this machine. */
int tutti_fitted_find(const struct tutti_cases *cases, uint32_t rank_count, enum tutti_fitted *ret,
                      char id[TUTTI_FITTED_ID_BYTES], struct tutti_err *err);

#endif
