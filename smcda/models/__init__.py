"""What is sampled: networks, likelihoods and priors."""
