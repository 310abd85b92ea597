/* The times of all algorithms at all sizes, a line a size. */
#ifndef TUTTI_TOOLS_SWEEP_COMPARE_TIMES_H
#define TUTTI_TOOLS_SWEEP_COMPARE_TIMES_H

#include <stdio.h>

struct tutti_ranking;

/* In microseconds by the letters of the ranking, those that run at no size left out, "-" where one
 * does not run; as many letters side by side as fit in so many columns, or in 100, then the
 * others. */
void tutti_compare_times(const struct tutti_ranking *ranking, int columns, FILE *out);

#endif
