/* What all processes of a run must hold alike, fact by fact: the options, the model, the data. */
#ifndef TUTTI_TOOLS_RUN_FACTS_H
#define TUTTI_TOOLS_RUN_FACTS_H

#include <stdint.h>

#include "runtime/status.h"
#include "runtime/units.h"

struct tutti_group;
struct tutti_run_facts; /* opaque */

int tutti_run_facts_new(struct tutti_run_facts **ret, struct tutti_err *err);
void tutti_run_facts_free(struct tutti_run_facts *facts); /* NULL is a no-op */

/* One more: "option '--optimizer'", of value "adam". A value of any length counts to its end; of a
 * long one its beginning is shown. Processes that hold the same add the same names in order. */
int tutti_run_facts_add(struct tutti_run_facts *facts, const char *name, const char *value,
                        struct tutti_err *err);
int tutti_run_facts_add_number(struct tutti_run_facts *facts, const char *name, uint64_t value,
                               struct tutti_err *err);

/* Collective. -TUTTI_EINVAL, in all of them, where not all hold the same; it names the first fact
 * that differs, with both values: "process 1 of 2 has option '--seed' '7', process 0 '1'". */
int tutti_run_facts_same(const struct tutti_run_facts *facts, struct tutti_group *group,
                         tutti_ps deadline_ps, struct tutti_err *err);

#endif
