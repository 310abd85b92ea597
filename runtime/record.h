/* What happened: one entry a completed step, the same from every backend; of a schedule laid out
 * flat, or, from a backend that takes CALLs as they are, of the schedule itself. */
#ifndef TUTTI_RUNTIME_RECORD_H
#define TUTTI_RUNTIME_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_event {
    tutti_ps start_ps; /* since the common start of the run; SEND: when it got its slot */
    tutti_ps end_ps;   /* completed; SEND: when its data had arrived or been taken */
    uint32_t rank;
    uint16_t lane;
    uint8_t kind; /* enum tutti_step_kind */
    uint8_t reserved;
    uint32_t peer; /* SEND, RECV; else 0 */
    uint64_t step; /* index in the lane */
    uint64_t bytes;
};

struct tutti_record {
    struct tutti_event *events; /* after tutti_record_sort: by end, start, rank, lane, step */
    size_t event_count;
    size_t event_capacity;
};

void tutti_record_init(struct tutti_record *record);
void tutti_record_done(struct tutti_record *record);  /* frees; the struct can be used again */
void tutti_record_clear(struct tutti_record *record); /* keeps the memory */
int tutti_record_reserve(struct tutti_record *record, size_t count); /* 0 or -TUTTI_ENOMEM */
int tutti_record_add(struct tutti_record *record, const struct tutti_event *event);
void tutti_record_sort(struct tutti_record *record);

/* A 64-bit FNV-1a hash of all fields of the sorted events: the same run, the same hash, whatever
 * the compiler or machine. with_times 0 hashes what was done and not when (rank, lane, step, kind,
 * peer, bytes; order by rank, lane, step), so that a simulation and a real run can be compared. */
uint64_t tutti_record_hash(struct tutti_record *record, int with_times);

TUTTI_API_END

#endif
