/* The levels of a schedule: which messages may move together, and what the ranks do with them then.
 * Players that have no lanes play it so, level by level: NCCL's, a group of sends and receives a
 * level; CUDA's, a kernel a stage in a graph. Host C, always compiled; private to runtime/exec.
 *
 * The level of a message is the longest chain of messages up to its end, as tutti_schedule_price
 * counts rounds: of all programs, so that all processes find the same levels without talking.
 * REDUCE, COPY and COMPUTE have the level of the last message before them, 0 if there is none, and
 * a stage within it. Played are, one after the other, the messages of level 1, stages 1, 2, ... of
 * it, the messages of level 2 and so on, after the stages of level 0. Within one of these nothing
 * touches bytes that another writes, so that all of it may go on at one time, in pieces.
 *
 * Two things differ from the order of lanes. A RECV with FUSE must not store where it says: what
 * came is read by the next REDUCE of its lane alone, which may be of a later level: either at the
 * sender, whose bytes stay until that REDUCE is over, or in memory of the message's own. And a RECV
 * moves before the steps that its lane has before it within the level; where they touch its bytes
 * it is of the next level. */
#ifndef TUTTI_RUNTIME_EXEC_LEVELS_H
#define TUTTI_RUNTIME_EXEC_LEVELS_H

#include <stdint.h>

struct tutti_err;
struct tutti_schedule;

struct tutti_level_stage {
    uint32_t level;
    uint32_t stage; /* 0: a message, or a step that does nothing (COPY of 0 bytes); else from 1 */
};

struct tutti_levels {
    uint32_t lane_total;              /* of all ranks */
    uint32_t level_count;             /* levels are 0 .. level_count - 1 */
    uint64_t *step_first;             /* [lane_total + 1]: of rank * lane_count + lane */
    struct tutti_level_stage *stages; /* [step_first[lane] + step] */
};

/* Of a flat schedule. -TUTTI_ECHECK, with rank, lane and step, for one that locks up or whose
 * messages do not match, as tutti_schedule_check says it. */
int tutti_levels_open(struct tutti_levels *levels, const struct tutti_schedule *schedule,
                      struct tutti_err *err);
void tutti_levels_close(struct tutti_levels *levels); /* a zeroed one is a no-op */

#endif
