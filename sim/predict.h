/* One prediction: a collective by an algorithm on a machine, with its bound; what predict, compare
 * and validate all call. */
#ifndef TUTTI_SIM_PREDICT_H
#define TUTTI_SIM_PREDICT_H

#include <stdbool.h>

#include "runtime/api.h"
#include "runtime/coll.h"
#include "sim/nccl.h"
#include "sim/sim.h"
#include "topo/topo.h"

TUTTI_API_BEGIN

struct tutti_predict_memory;
struct tutti_stretch;
struct tutti_nccl_env;

/* What holds where nothing is said: here, and in the options of `tutti predict`. A question that
 * has a size, a machine and a count gets the answer that the command gives, to the digit. */
#define TUTTI_STANDARD_MODEL   TUTTI_MODEL_FAIR /* 0 */
#define TUTTI_STANDARD_FOLD    "auto"
#define TUTTI_STANDARD_SEED    42 /* of the command; 0 is a seed like any other */
#define TUTTI_STANDARD_SECONDS 600
#define TUTTI_STANDARD_STEPS   2000000

/* What is left 0 or NULL is chosen: see each field. */
struct tutti_ask {
    size_t size; /* sizeof(struct tutti_ask): runtime/api.h */
    const struct tutti_topo *topo;
    /* A name of tutti_algorithms() or of params.added, "auto": the fastest of these, or "nccl":
     * what NCCL or RCCL would run, or one of its by name, as if forced by NCCL_ALGO: "nccl:ring",
     * "nccl:tree", "nccl:pat", or of messages "nccl:p2p"; params then say nothing of cuts. NULL:
     * the first row of the command: "nccl" where topo->hardware is known and that can be modelled,
     * else "auto". */
    const char *algorithm;
    struct tutti_coll_params params; /* channel_count 0: with algorithms that run on rings one for
                                        each ring order of the topology, or, where hosts have
                                        several NICs, as many as let each carry as much, if each
                                        then has 4 KiB of every block that goes round, else 1;
                                        chain-tree: two or four times as many, at least 2 */
    /* "ll", "ll128", "simple", or "auto": the fastest; with "nccl" its own choice, or forced by
     * name as if by NCCL_PROTO. "none": no protocol costs, but only latencies and rates of the
     * topology. NULL: that of tutti_predict_protocol(). */
    const char *protocol;
    /* What they cost: TUTTI_PROTOCOLS of them, in the order of tutti_protocols(), which are NCCL's
     * own figures. NULL: fitted to public measurements, as tutti_calibrated_for() has them, which
     * takes 2 ms; with `memory`, once. */
    const struct tutti_protocol *protocols;
    enum tutti_model model;
    uint64_t seed;
    double jitter;
    const tutti_ps *start_ps; /* NULL, or [rank]: when each rank begins */
    uint64_t reduce_bytes_per_s;
    const char *fold; /* "auto" (also NULL): one of several ranks that behave alike is simulated,
                         where that is known to be exact; "on": that, or refuse; "off" */
    const struct tutti_nccl_version *as_nccl; /* for algorithm "nccl" (nccl.h): NULL: 2.28.9; */
    const struct tutti_nccl_env *env;         /* and NULL: nothing set. Others do not heed them */
    struct tutti_record *record;              /* NULL, or the events of the winner */
    const struct tutti_bound_law *bound_law;  /* NULL: worked out, or that of topo, collective and
                                                root, for who asks often */
    uint32_t iteration_count; /* 0, 1: one alone; else the time of each of so many in a row, as
                                 nccl-tests measures (20): a rank begins the next when it has done
                                 its part. Heeded where that makes a difference and NCCL runs:
                                 broadcast and reduce, along chains of which no rank waits for the
                                 last */
    /* To play every rank for about longer is refused: -TUTTI_ETIME. 0: TUTTI_STANDARD_SECONDS. */
    uint32_t seconds_max;
    bool strict; /* what turns out to take longer than seconds_max, folded or not, is given up: what
                    sharing links takes is counted, no clock is asked */
    bool force;  /* play whatever it takes, in time and in memory */
    struct tutti_predict_memory *memory; /* NULL, or what predictions on this machine may tell each
                                         other: see tutti_predict_memory_new */
    /* What takes about more steps to simulate is refused; of ranks folded together those of one
     * count. Of those, and of rings on one lane, there may be 8 times as many, and 16 times of
     * rings on several lanes that share no link at a time, as those of a torus: they are simulated
     * faster. 0: TUTTI_STANDARD_STEPS with "auto", else no limit. */
    uint64_t step_count_max;
    bool empty; /* params.count 0 is meant, to move nothing; else it is refused, but of a barrier */
    const struct tutti_stretch *stretch; /* NULL; the library's own, see sim/limit.h */
};

/* Candidates of "auto" that were not simulated, so that one of them may be the fastest: for what it
 * would take in steps, time or memory, or as it is not modelled. Who does not fit the machine or
 * the collective is no candidate. */
enum { TUTTI_LEFT_OUT_BYTES = 256 };
struct tutti_left_out {
    uint32_t count;
    const char *algorithm; /* the first of them; NULL: none */
    char
        why[TUTTI_LEFT_OUT_BYTES]; /* as tutti_predict() by that name would say, or its beginning */
};

struct tutti_answer {
    const char *algorithm; /* that was run or won */
    const char *protocol;
    uint32_t channel_count; /* that NCCL would use; 0 with other algorithms */
    uint64_t bytes;         /* nccl-tests' size column actually simulated */
    tutti_ps time_ps;
    double algbw_GBps;
    double busbw_GBps;
    struct tutti_bound bound; /* time_ps 0: none is known */
    double percent_of_bound;  /* 100 * bound / time; 0 without a bound */
    bool beats_bound; /* no machine is that fast: the model leaves out what binds. Never with model
                         fair; alphabeta lets messages pass through each other but on the first
                         link of their route. The bound is physics, whatever the model */
    uint64_t event_count; /* steps of all ranks, those folded away included */
    bool folded;
    uint32_t class_count; /* folded: ranks simulated, each for all that do the same; else 0 */
    struct tutti_left_out left_out;
};

/* Predicts. -TUTTI_EINVAL where the algorithm does not fit the topology or collective (the message
 * names those that do); -TUTTI_ELACK for what is not modelled yet, too large to hold, beyond
 * step_count_max, longer than the clock counts (106 days), or, with fold "on", not to be folded;
 * -TUTTI_ETIME, with steps, time, memory and why it does not fold, beyond seconds_max;
 * folded times equal unfolded ones. With "auto" algorithms that fail in either way are left out,
 * which the answer tells but of those that do not fit, and only if none is left it is an error. */
int tutti_predict(const struct tutti_ask *ask, struct tutti_answer *ret, struct tutti_err *err);

/* A time that the answer for ask->algorithm, a name, is not below, found at a fraction of the price
 * of a prediction: what the busiest link needs for the bytes that it carries. 0 where that would
 * take long itself, and for what NCCL would run. Fails as tutti_predict() does where there is no
 * schedule. */
int tutti_predict_least(const struct tutti_ask *ask, tutti_ps *ret, struct tutti_err *err);

/* For who asks about many sizes or algorithms on one machine: what one prediction finds out about
 * schedules, others need not. Answers are the same as without. Of one thread at a time, and of one
 * machine as it is; the caller frees it. */
int tutti_predict_memory_new(struct tutti_predict_memory **ret, struct tutti_err *err);
void tutti_predict_memory_free(struct tutti_predict_memory *memory); /* NULL is a no-op */

/* The schedule that tutti_predict simulates for ask->algorithm, which must be a name: laid out on
 * the rings of the topology, with the channels chosen. The caller frees it. */
int tutti_predict_schedule(const struct tutti_ask *ask, struct tutti_schedule **ret,
                           struct tutti_err *err);

/* An answer's name of an algorithm or a protocol that lasts, for one that does not; "": none. */
const char *tutti_predict_name(const struct tutti_ask *ask, const char *name);

/* What `protocol` NULL stands for: "auto" where there is NVLink, xGMI, PCIe or C2C, else "none". */
const char *tutti_predict_protocol(const struct tutti_topo *topo);

/* A protocol of ask->protocols (not NULL) by name; "none": NULL. -TUTTI_EINVAL for what is no name.
 */
int tutti_ask_protocol(const struct tutti_ask *ask, const char *name,
                       const struct tutti_protocol **ret, struct tutti_err *err);

/* "exact", "valid" (true, but perhaps out of reach), or "none". */
const char *tutti_bound_kind(const struct tutti_bound *bound);

TUTTI_API_END

#endif
