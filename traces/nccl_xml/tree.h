/* An XML document as a flat list of elements in document order, each after its parent. */
#ifndef TUTTI_TRACES_NCCL_XML_TREE_H
#define TUTTI_TRACES_NCCL_XML_TREE_H

#include <stddef.h>
#include <stdint.h>

struct tutti_arena;
struct tutti_err;

#define TUTTI_XML_NONE UINT32_MAX

struct tutti_xml_element {
    const char *name;
    const char *const *attributes; /* name, value, name, value, ..., NULL */
    uint32_t parent;               /* TUTTI_XML_NONE: the root */
    uint32_t line;                 /* of its start tag, from 1 */
};

/* All text lies in the arena, which the owner of the document frees. */
struct tutti_xml {
    const char *name; /* of the file, for messages; borrowed */
    struct tutti_arena *arena;
    struct tutti_xml_element *elements; /* from malloc; tutti_xml_done() frees it */
    uint32_t count;
    uint32_t capacity;
};

int tutti_xml_init(struct tutti_xml *xml, const char *name, struct tutti_err *err);
void tutti_xml_done(struct tutti_xml *xml);

/* Adds an element and copies its texts; refuses more of them than any machine has. */
int tutti_xml_add(struct tutti_xml *xml, const char *name, const char *const *attributes,
                  uint32_t parent, uint32_t line, struct tutti_err *err);

/* The value of an attribute, or NULL if it is absent or empty. */
const char *tutti_xml_value(const struct tutti_xml_element *element, const char *attribute);

/* Reads a whole number, decimal or 0x..., into *ret; `absent` where there is no such attribute.
 * What is no number in [min, max] is refused with its line. */
int tutti_xml_number(const struct tutti_xml *xml, const struct tutti_xml_element *element,
                     const char *attribute, int64_t absent, int64_t min, int64_t max, int64_t *ret,
                     struct tutti_err *err);

/* A bus id as a number, from its hexadecimal digits alone, as NCCL does; 0 if there is none. */
uint64_t tutti_xml_bus(const struct tutti_xml_element *element, const char *attribute);

/* Vendor, device, subsystem vendor and device of a pci element, 16 bits each. */
uint64_t tutti_xml_device_ids(const struct tutti_xml_element *pci);

/* A copy fit for a message of one line: at most 40 characters, '?' for what is not visible. */
enum { TUTTI_XML_QUOTE_BYTES = 44 };
const char *tutti_xml_quote(const char *text, char *buf);

#endif
