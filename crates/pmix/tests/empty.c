int nothing_of_pmix;
