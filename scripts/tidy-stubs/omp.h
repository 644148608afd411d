// For clang-tidy alone: GCC's omp.h uses attributes that clang does not know.
#pragma once
extern "C" {
int omp_get_max_threads(void);
int omp_get_num_threads(void);
int omp_get_thread_num(void);
int omp_get_num_procs(void);
int omp_in_parallel(void);
void omp_set_num_threads(int);
void omp_set_dynamic(int);
double omp_get_wtime(void);
}
