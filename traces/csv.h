/* Measurements and records as CSV. */
#ifndef TUTTI_TRACES_CSV_H
#define TUTTI_TRACES_CSV_H

#include <stddef.h>

#include "runtime/api.h"
#include "traces/nccl_tests.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_record;

/* Reads a table of measurements: a header line with at least size_bytes and time_us; algbw_GBps,
 * busbw_GBps, in_place_time_us, in_place_algbw_GBps, in_place_busbw_GBps are taken where present,
 * and collective, the same in all rows; lines that start with '#' are skipped, and so are other
 * columns, but for one whose name is all but one of these: that is refused. One table with the
 * fields that CSV does not carry left unknown. */
int tutti_csv_measurements_parse(const char *name, const char *text, size_t bytes,
                                 struct tutti_nccl_log *ret, struct tutti_err *err);

/* Writes a record: start_ps,end_ps,rank,lane,step,kind,peer,bytes. *ret is freed with free(). */
int tutti_csv_record_print(const struct tutti_record *record, char **ret, struct tutti_err *err);

TUTTI_API_END

#endif
