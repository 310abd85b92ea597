/* The middle and the tail of a list of figures. */
#ifndef TUTTI_TOOLS_VALIDATE_PERCENTILES_H
#define TUTTI_TOOLS_VALIDATE_PERCENTILES_H

#include <stddef.h>

/* Rising. */
void tutti_percentiles_sort(double *values, size_t count);

/* Of `count` >= 1 rising values. Of an even number the median is the mean of the two in the middle;
 * p90 is the smallest value that at least 90 % do not exceed. */
double tutti_percentiles_median(const double *sorted, size_t count);
double tutti_percentiles_p90(const double *sorted, size_t count);

#endif
