"""What MySQL and MariaDB write in their own way."""
