/* Amounts as people say them: 15T tokens, 10M dollars, 60d, and lists of degrees. */
#ifndef TUTTI_TOOLS_PLAN_AMOUNTS_H
#define TUTTI_TOOLS_PLAN_AMOUNTS_H

#include <stddef.h>
#include <stdint.h>

struct tutti_err;

/* All are -TUTTI_EINVAL with what would have been accepted. */

/* "15T", "1.5B", "300K", "5e9": powers of 1000; *ret is in units of which `scale` are one (1000000:
 * in millionths). At least 1 of them. */
int tutti_amount_read(const char *text, uint64_t scale, uint64_t *ret, struct tutti_err *err);

/* "60d", "12h", "30min", "90s", "8w": in microseconds. At least 1. */
int tutti_duration_read(const char *text, uint64_t *ret_us, struct tutti_err *err);

/* "8", "1,2,8", "1..16" (doubling), each at least 1: at most `capacity` of them, rising, each once.
 */
int tutti_values_read(const char *text, uint32_t *ret, uint32_t capacity, uint32_t *ret_count,
                      struct tutti_err *err);

/* Words of a list with commas, each found by `find`, as bits 1u << number. */
int tutti_words_read(const char *text,
                     int (*find)(const char *name, uint32_t *ret, struct tutti_err *err),
                     uint32_t *ret_bits, struct tutti_err *err);

/* "3.2 days", "14 hours": in the unit in which it is 2 or more, seconds at least. */
enum { TUTTI_DURATION_TEXT_BYTES = 40 };
const char *tutti_duration_text(double seconds, char *buf);

#endif
