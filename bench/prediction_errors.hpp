#pragma once

// Errors of predictions against what others measured, for the tables.

#include <cmath>
#include <cstdio>

namespace trimtab::bench {

// In percent.
struct Errors {
  double sum = 0, absolute = 0;
  int rows = 0;

  double add(double predicted, double real) {
    const double error = (predicted / real - 1) * 100;
    sum += error;
    absolute += std::abs(error);
    ++rows;
    return error;
  }
  void print(const char* name) const {
    if (rows == 0) return;
    std::printf("* %s: mean absolute error %.1f %%, bias %+.1f %%, %d rows\n", name, absolute / rows, sum / rows, rows);
  }
};

}  // namespace trimtab::bench
