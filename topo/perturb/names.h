/* What the names in a list of perturbations stand for in a machine. */
#ifndef TUTTI_TOPO_PERTURB_NAMES_H
#define TUTTI_TOPO_PERTURB_NAMES_H

#include <stdint.h>

#include "topo/perturb.h"

/* The two nodes of a NAMED slow link, which a link joins, one way at least. */
int tutti_perturb_cable(const struct tutti_topo *topo, const struct tutti_perturb_item *item,
                        uint32_t *ret_a, uint32_t *ret_b, struct tutti_err *err);

/* The node or the host of a NAMED slow node; the other one is UINT32_MAX. */
int tutti_perturb_node(const struct tutti_topo *topo, const struct tutti_perturb_item *item,
                       uint32_t *ret_node, uint32_t *ret_host, struct tutti_err *err);

/* As tutti_perturb_check, of one item. */
int tutti_perturb_check_item(const struct tutti_topo *topo, const struct tutti_perturb_item *item,
                             struct tutti_err *err);

#endif
