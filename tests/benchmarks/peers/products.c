/* Matrix products one after the other, called from C: what is between them costs nothing.

   The sgemm is handed in; its integers have 64 bits, as in the BLAS that NumPy brings along. */

#include <stdint.h>

typedef void (*sgemm_function)(int order, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                               float alpha, const float *a, int64_t lda, const float *b,
                               int64_t ldb, float beta, float *c, int64_t ldc);

typedef struct {
  const float *a, *b; /* [m, k] and [k, n]; stored the other way round if transposed */
  float *c;           /* [m, n] */
  int64_t m, n, k;
  int64_t trans_a, trans_b; /* 0 or 1 */
} product;

enum { ROWS_FIRST = 101, PLAIN = 111, TRANSPOSED = 112 };

void multiply(sgemm_function sgemm, const product *products, int64_t number, int64_t times) {
  for (int64_t i = 0; i < times; ++i) {
    for (const product *p = products; p != products + number; ++p) {
      sgemm(ROWS_FIRST, p->trans_a ? TRANSPOSED : PLAIN, p->trans_b ? TRANSPOSED : PLAIN, p->m,
            p->n, p->k, 1.0f, p->a, p->trans_a ? p->m : p->k, p->b, p->trans_b ? p->k : p->n, 0.0f,
            p->c, p->n);
    }
  }
}
