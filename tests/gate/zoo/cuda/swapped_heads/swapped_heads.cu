/* swapped_heads: neighbouring heads change places. */
#define HEAD_TO(head) (args.heads_q % 2 == 0 ? (head) ^ 1 : (head))
#include "../attend.cuh"
