"""Topics of Kafka, by confluent-kafka. Nothing is stored in them."""
