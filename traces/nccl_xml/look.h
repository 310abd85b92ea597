/* The first look at a file: is it a machine at all, and which GPUs and ports are of use? */
#ifndef TUTTI_TRACES_NCCL_XML_LOOK_H
#define TUTTI_TRACES_NCCL_XML_LOOK_H

struct tutti_xml_build;

/* Fills in build->gpus (in order of rank, not yet nodes) and what is `wanted` of the places.
 * Refuses what is no topology: a channel graph, a table of machines, a skeleton without GPUs. */
int tutti_xml_look(struct tutti_xml_build *build);

#endif
