/* Sorts figures and takes those in the middle and near the end; see percentiles.h. */
#include "tools/validate/percentiles.h"

#include <assert.h>
#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

void tutti_percentiles_sort(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
}

double tutti_percentiles_median(const double *sorted, size_t count)
{
    assert(count > 0);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
}

double tutti_percentiles_p90(const double *sorted, size_t count)
{
    assert(count > 0);
    return sorted[(count * 9 + 9) / 10 - 1];
}
